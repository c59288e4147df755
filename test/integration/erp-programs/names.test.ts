import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();

test('of order type, method and return reason every view has the code as x and the name as x_name', async () => {
  await database.query(`
    insert into fulfilment.setting_options (client, list, id, code, name, raw)
    values ('default', 'orderTypes', 1, 'B2C', 'Consumers', '{}'), ('default', 'returnReasons', 1, 'DAMAGED', 'Damaged', '{}'),
      ('default', 'mainShippingMethods', 1, 'PARCEL', 'Parcel', '{}'), ('default', 'shippingMethods', 2, 'DHL', 'DHL Parcel', '{}'),
      ('other', 'shippingMethods', 1, 'OTHER', 'Other', '{}');
    insert into fulfilment.main_shipping_method_warehouses (client, main_shipping_method_id, shipping_method_id, warehouse)
    values ('default', 1, 2, 'AMS'), ('default', 1, 3, 'EIN');
    insert into fulfilment.orders (client, id, external_order_number, order_type_id, preferred_shipping_method_id, raw, read_no)
    values ('default', 5, 'SO-1', 1, 1, '{}', 1), ('default', 6, 'SO-2', 1, 2, '{}', 1);
    insert into fulfilment.shipments (client, id, order_id, order_type_id, shipping_method_id, warehouse_code, raw, read_no)
    values ('default', 7, 5, 1, 1, 'AMS', '{}', 1), ('default', 8, 6, 1, 2, 'AMS', '{}', 1), ('default', 9, 6, 1, 1, 'EIN', '{}', 1);
    insert into fulfilment.shipment_items (client, id, shipment_id, raw)
    values ('default', 71, 7, '{}'), ('default', 81, 8, '{}'), ('default', 91, 9, '{}');
    insert into fulfilment.return_items (client, id, quantity, return_reason_id, raw, read_no)
    values ('default', 1, 2, 1, '{}', 1), ('default', 2, 1, 9, '{}', 1)`);
  const read = async (query: string) =>
    (await database.query(query)).map((row) => Object.values(row));
  const shipped = [
    ['B2C', 'Consumers', 'PARCEL', 'Parcel', 'DHL', 'DHL Parcel'],
    ['B2C', 'Consumers', 'DHL', 'DHL Parcel', 'DHL', 'DHL Parcel'],
    ['B2C', 'Consumers', 'PARCEL', 'Parcel', null, null],
  ];
  const named = 'order_type, order_type_name, shipping_method, shipping_method_name';
  const columns = `${named}, carrier_code, carrier_name`;
  expect(await read(`select ${columns} from fulfilment.shipment_overview order by id`)).toEqual(
    shipped,
  );
  expect(
    await read(`select ${columns} from fulfilment.shipment_lines order by shipment_id`),
  ).toEqual(shipped);
  expect(await read(`select ${named} from fulfilment.order_overview order by order_id`)).toEqual([
    ['B2C', 'Consumers', 'PARCEL', 'Parcel'],
    ['B2C', 'Consumers', 'DHL', 'DHL Parcel'],
  ]);
  const returns = 'return_reason, return_reason_name';
  for (const view of ['return_overview', 'returns_to_restock'])
    expect(await read(`select ${returns} from fulfilment.${view} order by return_item_id`)).toEqual(
      [
        ['DAMAGED', 'Damaged'],
        [null, null],
      ],
    );
  // The rule for the views to come.
  expect(
    await read(`
      select table_name, column_name
      from information_schema.columns c
      where table_schema = 'fulfilment' and column_name in ('order_type', 'shipping_method', 'return_reason')
        and table_name <> 'carrier_links' and not exists (
          select from information_schema.columns n
          where (n.table_schema, n.table_name) = (c.table_schema, c.table_name)
            and n.column_name = c.column_name || '_name')`),
  ).toEqual([]);
});

test('returns and received goods have what posting needs: currency, VAT, lots, serials, and totals of the slip', async () => {
  await database.query(`
    insert into fulfilment.orders (client, id, currency, raw, read_no) values ('default', 5, 'EUR', '{}', 1);
    insert into fulfilment.order_items (client, id, order_id, sku, quantity, price, vat, name, raw)
    values ('default', 51, 5, 'MUG', 3, 2.50, 0.21, 'Blue mug', '{}');
    insert into fulfilment.shipments (client, id, order_id, raw, read_no) values ('default', 7, 5, '{}', 1);
    insert into fulfilment.shipment_items (client, id, shipment_id, order_item_id, sku, quantity, lot_number, serial_numbers, raw)
    values ('default', 71, 7, 51, 'MUG', 3, 'L-1', '{S1,S2,S3}', '{}');
    insert into fulfilment.return_merchandise_authorizations (client, id, external_reference, raw, read_no)
    values ('default', 3, 'RET-1', '{}', 1);
    insert into fulfilment.return_merchandise_authorization_items (client, id, return_merchandise_authorization_id, raw)
    values ('default', 31, 3, '{}');
    insert into fulfilment.return_items
      (client, id, order_item_id, shipment_item_id, return_merchandise_authorization_item_id, sku, quantity, raw, read_no)
    values ('default', 1, 51, 71, 31, 'MUG', 2, '{}', 1);
    insert into fulfilment.inbound_packing_slips (client, id, reference, raw, read_no) values ('default', 3, 'PO-1', '{}', 1);
    insert into fulfilment.inbound_packing_slip_items (client, id, inbound_packing_slip_id, sku, quantity, received, raw)
    values ('default', 31, 3, 'MUG', 10, 6, '{}'), ('default', 32, 3, 'TEA', 5, 0, '{}');
    insert into fulfilment.inbounds (client, id, inbound_packing_slip_id, raw, read_no)
    values ('default', 4, 3, '{}', 1), ('default', 6, null, '{}', 1);
    insert into fulfilment.inbound_items (client, id, inbound_id, inbound_packing_slip_item_id, sku, quantity, lot_number, raw)
    values ('default', 41, 4, 31, 'MUG', 4, 'L-1', '{}'), ('default', 61, 6, null, 'CAP', 1, null, '{}')`);
  expect(await database.query('select name, price, vat from fulfilment.order_lines')).toEqual([
    { name: 'Blue mug', price: '2.50', vat: '0.21' },
  ]);
  expect(await database.query('select * from fulfilment.return_overview')).toMatchObject([
    {
      external_reference: 'RET-1',
      currency: 'EUR',
      vat: '0.21',
      amount: '5.00',
      lot_number: 'L-1',
      serial_numbers: ['S1', 'S2', 'S3'],
    },
  ]);
  expect(
    await database.query('select * from fulfilment.received_goods order by inbound_item_id'),
  ).toMatchObject([
    {
      lot_number: 'L-1',
      slip_reference: 'PO-1',
      line_expected: 10,
      line_received: 6,
      slip_expected: 15,
      slip_received: 6,
    },
    { sku: 'CAP', slip_reference: null, line_expected: null, slip_expected: null },
  ]);
});
