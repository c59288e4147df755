-- Comments of columns that mean the same in several tables and views of schema fulfilment. A column
-- that has a comment of its own keeps it.
do $$
declare
  found record;
begin
  for found in
    with general (name, meaning) as (values
      ('carrier_name', 'Name of the nested shipping method'),
      ('changed_at', 'When its content last changed here'),
      ('client', 'Client key'),
      ('created_at', 'When it was inserted'),
      ('expected_in', 'Warehouse it is announced for'),
      ('expected_on', 'Day it is announced for'),
      ('expiration_date', 'Day before which it is to be used'),
      ('external_order_number', 'Your order number'),
      ('first_seen_at', 'When it was first stored here'),
      ('id', 'Id at the service'),
      ('inbound_id', 'Inbound (inbounds.id)'),
      ('inbound_packing_slip_id', 'Inbound packing slip (inbound_packing_slips.id)'),
      ('lot_number', 'Lot (batch) of the pieces'),
      ('order_id', 'Order (orders.id)'),
      ('order_item_id', 'Line of the order (order_items.id)'),
      ('order_type', 'Code of the order type'),
      ('order_type_name', 'Name of the order type'),
      ('ordered_on', 'Day the order was placed: orderedOn of your order.create'),
      ('package_number', 'Number of the package; empty if it has none'),
      ('processed_in', 'Warehouse that processed it'),
      ('product_id', 'Id of the article at the service'),
      ('quantity', 'Number of pieces'),
      ('raw', 'The resource as received, without the resources that came with it'),
      ('read_no',
        'Number of the reading that the row comes from; a larger number is a later reading'),
      ('received_in', 'Warehouse that received it'),
      ('redeliver', 'True if it is to be delivered again'),
      ('shipment_id', 'Shipment (shipments.id)'),
      ('shipping_method', 'Code of the shipping method, main or nested'),
      ('shipping_method_name', 'Name of the shipping method'),
      ('sku', 'Your article number'),
      ('unlisted_since', 'Since when the service no longer knows it; null while it does'),
      ('warehouse_code', 'Warehouse that fulfils it')
    ), of_events (name, meaning) as (values
      ('id', 'Number of the event'),
      ('seen_at', 'When it was read'),
      ('source_time',
        'Time that the service gives for this status; null for a status without a time'),
      ('status', 'Status from then on')
    )
    select a.attrelid::regclass as relation, a.attname as name,
      coalesce(case when c.relname like '%\_events' then e.meaning end, g.meaning) as meaning
    from pg_attribute a
    join pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'v')
    left join general g on g.name = a.attname
    left join of_events e on e.name = a.attname
    where c.relnamespace = 'fulfilment'::regnamespace and a.attnum > 0 and not a.attisdropped
      and col_description(a.attrelid, a.attnum) is null
  loop
    execute format('comment on column %s.%I is %L', found.relation, found.name, found.meaning);
  end loop;
end
$$;

-- Views call these with the rights of the role that reads, column defaults with those of the role
-- that inserts. In some databases new functions may not be executed by all roles. Roles of the ERP
-- still cannot call them by name, because they may not use schema sync.
grant execute on function sync.format_time, sync.real_time, sync.real_day, sync.encode_for_url,
  sync.read_tracking_link, sync.table_mark, sync.push_database_hold to public;
