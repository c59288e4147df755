import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();

test('views name the order type, the method, main or nested, its carrier, and the return reason', async () => {
  await database.query(`
    insert into fulfilment.setting_options (client, list, id, code, name, raw)
    values ('default', 'orderTypes', 1, 'B2C', 'Consumers', '{}'), ('default', 'returnReasons', 1, 'DAMAGED', 'Damaged', '{}'),
      ('default', 'mainShippingMethods', 1, 'PARCEL', 'Parcel', '{}'), ('default', 'shippingMethods', 2, 'DHL', 'DHL Parcel', '{}'),
      ('other', 'shippingMethods', 1, 'OTHER', 'Other', '{}');
    insert into fulfilment.main_shipping_method_warehouses (client, main_shipping_method_id, shipping_method_id, warehouse)
    values ('default', 1, 2, 'AMS'), ('default', 1, 3, 'EIN');
    insert into fulfilment.orders (client, id, external_order_number, order_type_id, preferred_shipping_method_id, raw, read_no)
    values ('default', 5, 'SO-1', 1, 1, '{}', 1), ('default', 6, 'SO-2', 1, 2, '{}', 1);
    insert into fulfilment.order_items (client, id, order_id, sku, quantity, price, raw) values ('default', 51, 5, 'MUG', 3, 2.5, '{}');
    insert into fulfilment.shipments (client, id, order_id, order_type_id, shipping_method_id, warehouse_code, raw, read_no)
    values ('default', 7, 5, 1, 1, 'AMS', '{}', 1), ('default', 8, 6, 1, 2, 'AMS', '{}', 1), ('default', 9, 6, 1, 1, 'EIN', '{}', 1);
    insert into fulfilment.shipment_items (client, id, shipment_id, raw)
    values ('default', 71, 7, '{}'), ('default', 81, 8, '{}'), ('default', 91, 9, '{}');
    insert into fulfilment.return_merchandise_authorizations (client, id, external_reference, raw, read_no)
    values ('default', 3, 'RET-1', '{}', 1);
    insert into fulfilment.return_merchandise_authorization_items (client, id, return_merchandise_authorization_id, raw)
    values ('default', 31, 3, '{}');
    insert into fulfilment.return_items (client, id, order_item_id, quantity, return_reason_id, raw, read_no,
      return_merchandise_authorization_item_id)
    values ('default', 1, 51, 2, 1, '{}', 1, 31), ('default', 2, null, 1, 9, '{}', 1, null)`);
  const read = async (query: string) => (await database.query(query)).map((row) => Object.values(row));
  const shipped = [
    ['Consumers', 'Parcel', 'DHL', 'DHL Parcel'],
    ['Consumers', 'DHL Parcel', 'DHL', 'DHL Parcel'],
    ['Consumers', 'Parcel', null, null],
  ];
  const columns = 'order_type, shipping_method, carrier_code, carrier_name';
  expect(await read(`select ${columns} from fulfilment.shipment_overview order by id`)).toEqual(shipped);
  expect(await read(`select ${columns} from fulfilment.shipment_lines order by shipment_id`)).toEqual(shipped);
  expect(await read('select order_type, shipping_method from fulfilment.order_overview order by order_id')).toEqual([
    ['Consumers', 'Parcel'],
    ['Consumers', 'DHL Parcel'],
  ]);
  expect(
    await read(
      'select return_reason, external_reference, amount from fulfilment.return_overview order by return_item_id',
    ),
  ).toEqual([
    ['Damaged', 'RET-1', '5.0'],
    [null, null, null],
  ]);
  expect(await read('select return_reason from fulfilment.returns_to_restock order by return_item_id')).toEqual([
    ['Damaged'],
    [null],
  ]);
});
