import { expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();

test('a parcel has the link of its carrier, encoded; a code that is a link stays', async () => {
  await database.query(`
    insert into fulfilment.orders (client, id, external_order_number, raw, read_no) values ('default', 5, 'SO-1', '{}', 1);
    insert into fulfilment.order_addresses (client, order_id, role, postcode, country_code, raw)
    values ('default', 5, 'delivery', '1234 AB', 'NL', '{}');
    insert into fulfilment.setting_options (client, list, id, code, name, raw)
    values ('default', 'mainShippingMethods', 1, 'PARCEL', 'Parcel', '{}'), ('default', 'shippingMethods', 1, 'NESTED', 'Nested', '{}'),
      ('default', 'shippingMethods', 2, 'LETTER', 'Letter', '{}');
    insert into fulfilment.shipments (client, id, order_id, shipping_method_id, status, raw, read_no)
    values ('default', 7, 5, 1, 'SHIPPED', '{}', 1), ('default', 8, 5, 2, 'SHIPPED', '{}', 1);
    insert into fulfilment.carrier_links (shipping_method, url)
    values ('PARCEL', 'https://carrier.example/{code}-{country}-{postcode}?p={package}'),
      ('LETTER', 'https://letters.example/{barcode}');
    insert into fulfilment.parcels (client, shipment_id, package_number, track_and_trace_code, track_and_trace_bar_code, raw, read_no)
    values ('default', 7, 'A', '3S&ü', null, '{}', 1), ('default', 7, 'B', 'https://own.example/1', null, '{}', 1),
      ('default', 7, 'C', null, null, '{}', 1), ('default', 8, 'D', null, 'B 1', '{}', 1)`);
  const rows = await database.query(
    'select tracking_url as url from fulfilment.parcel_overview order by package_number',
  );
  expect(rows.map(({ url }) => url)).toEqual([
    'https://carrier.example/3S%26%C3%BC-NL-1234AB?p=A',
    'https://own.example/1',
    null,
    'https://letters.example/B%201',
  ]);
});

test('every place gives the link that the service names, if neither the code nor the carrier has one', async () => {
  await database.query(`
    insert into fulfilment.orders (client, id, external_order_number, raw, read_no) values ('default', 5, 'SO-1', '{}', 1);
    insert into fulfilment.shipments (client, id, order_id, status, raw, read_no)
    values ('default', 7, 5, 'SHIPPED', '{"attributes": {"tracking": {"url": "https://service.example/7"}}}', 1);
    insert into fulfilment.shipment_items (client, id, shipment_id, sku, quantity, raw) values ('default', 1, 7, 'MUG', 1, '{}')`);
  const readLinks = () =>
    database.query(`
      select tracking_url, (fulfilment.order_state('SO-1')).tracking_urls,
        (select tracking_url from fulfilment.parcel_overview) as parcel
      from fulfilment.shipment_lines`);
  const url = 'https://service.example/7';
  expect(await readLinks()).toEqual([{ tracking_url: url, tracking_urls: [], parcel: null }]);
  await database.query(`
    insert into fulfilment.parcels (client, shipment_id, package_number, track_and_trace_code, raw, read_no)
    values ('default', 7, 'A', '3S1', '{}', 1)`);
  expect(await readLinks()).toEqual([{ tracking_url: url, tracking_urls: [url], parcel: url }]);
});

test('the address of a carrier is a web address with known values to fill in', async () => {
  const insert = (url: string) =>
    database.query(
      `insert into fulfilment.carrier_links (shipping_method, url) values ('PARCEL', $1)`,
      [url],
    );
  await expect(insert('javascript:alert(1)')).rejects.toThrow('carrier_links_url_check');
  await expect(insert('https://carrier.example/{kode}')).rejects.toThrow(
    'carrier_links_placeholders',
  );
});

/**
 * Inserts a shipment of order 5 with one line of two pieces, and its packages, of which each lists
 * the whole shipment.
 */
const insertPackages = (
  shipmentId: number,
  numbers: readonly string[],
  colli: number | null = null,
) =>
  database.query(
    `
    insert into fulfilment.orders (client, id, external_order_number, raw, read_no) values ('default', 5, 'SO-1', '{}', 1)
    on conflict do nothing;
    insert into fulfilment.shipments (client, id, order_id, status, shipped_on, raw, read_no)
    values ('default', $, 5, 'SHIPPED', now(), '{}', 1);
    insert into fulfilment.shipment_items (client, id, shipment_id, sku, quantity, raw)
    values ('default', $, $, 'MUG', 2, '{}');
    insert into fulfilment.parcels (client, shipment_id, package_number, shipment_items, number_of_colli, raw, read_no)
    select 'default', $, n, '[{"shipmentItemId": $, "sku": "MUG", "quantity": 2}]', ${colli}, '{}', 1
    from unnest('{${numbers.join()}}'::text[]) n`.replaceAll('$', String(shipmentId)),
  );

test('the contents of a package are known only if its shipment has no other package', async () => {
  await insertPackages(1, ['A']);
  await insertPackages(2, ['B', 'C']);
  // The look-up names one of two packages.
  await insertPackages(3, ['D'], 2);
  await insertPackages(4, ['E', 'F']);
  await database.query(
    `update fulfilment.parcels set unlisted_since = now() where package_number = 'E'`,
  );
  await insertPackages(5, ['G']);
  await database.query(
    `update fulfilment.parcels set shipment_items = null where package_number = 'G'`,
  );
  const known = await database.query(`
    select package_number as name from fulfilment.parcel_overview
    where items_known and jsonb_array_length(items) = 1 order by 1`);
  expect(known).toEqual([{ name: 'A' }, { name: 'F' }]);
  const unknown = 'fulfilment.parcel_overview where not items_known and items is null';
  expect(await database.count(unknown)).toBe(5);
});

test('a package that left the track-trace list is delivered, and so is an order whose packages all have left it', async () => {
  await insertPackages(1, ['A', 'B']);
  const read = async () => {
    const rows = await database.query<{ name: string; state: string; since: string }>(`
      select package_number as name, tracking_state as state, tracking_since::date::text as since
      from fulfilment.parcel_overview
      union all
      select external_order_number, tracking_state, tracking_since::date::text from fulfilment.order_overview
      order by 1`);
    return rows.map(({ name, state, since }) => `${name} ${state} ${since}`);
  };
  const leave = (packageNumber: string, on: string) =>
    database.query(
      'update fulfilment.track_traces set unlisted_since = $2 where package_number = $1',
      [packageNumber, on],
    );
  expect(await read()).toEqual(['A null null', 'B null null', 'SO-1 null null']);

  // The list may name the shipment without the numbers of its packages.
  await database.query(`
    insert into fulfilment.track_traces (client, shipment_id, package_number, first_seen_at, raw)
    values ('default', 1, 'A', '2026-05-01', '{}'), ('default', 1, '', '2026-05-02', '{}')`);
  await leave('A', '2026-05-03');
  expect(await read()).toEqual([
    'A ended 2026-05-03',
    'B on_its_way 2026-05-02',
    'SO-1 on_its_way 2026-05-02',
  ]);
  await leave('', '2026-05-04');
  expect(await read()).toEqual([
    'A ended 2026-05-03',
    'B ended 2026-05-04',
    'SO-1 ended 2026-05-04',
  ]);
});
