import type pg from 'pg';
import { waitFor } from '../test/helpers/wait.ts';

const past = '20 days';
const running = 'select from sync.leases where expires_at > now()';
/** SQL: a parcel of an order with a returned item. */
export const returnedParcel = `select from fulfilment.parcels p join fulfilment.shipments s on s.client = p.client and s.id = p.shipment_id
  join fulfilment.return_items i on i.client = s.client and i.order_id = s.order_id limit 1`;

/**
 * Stores a past of 30 days for pictures: runs, and rows of the outbox with their attempts. The worker makes the figures
 * of it. Ages are only seen at their time, so their figures are stored directly.
 */
export async function storePast(client: pg.Client): Promise<void> {
  // More by day than by night, and a bad hour yesterday.
  const busy = `(1.1 + sin((extract(hour from at) - 9) * pi() / 12))`;
  // The first load would be larger than everything else.
  await client.query('delete from sync.figures');
  await client.query('update sync.runs set created = 20 + id % 20, updated = 0 where created > 60');
  await client.query(`
    insert into sync.runs (client, job, trigger, worker, lease_token, status, started_at, finished_at, created, updated)
    select 'default', job, 'schedule', 'a worker', -row_number() over (), 'done', at, at, weight * ${busy}, 0
    from generate_series(now() - interval '30 days', now() - interval '5 minutes', interval '15 minutes') at,
      (values ('pull-shipments', 40), ('pull-orders', 25), ('pull-return-items', 8), ('pull-inbounds', 5),
        ('pull-inbound-packing-slips', 3)) jobs (job, weight)`);
  await client.query(`
    with past as (
      select at, n, 0.3 + random() * random() * 3 + case when n % 97 = 0 then 40 else 0 end as seconds
      from generate_series(now() - interval '30 days', now() - interval '5 minutes', interval '15 minutes') at,
        generate_series(1, 6) n
      where n < 5 * ${busy}
    ), pushed as (
      insert into fulfilment.outbox (kind, reference, status, next_attempt_at, result, created_at, finished_at)
      select 'order.create', 'P-' || row_number() over (), 'done', null, '{}', at - make_interval(secs => seconds), at from past
      returning id, finished_at
    )
    insert into sync.outbox_attempts (outbox_id, step, by, became, at)
    select id, 'sent', 'a worker', case when id % 23 = 0 then 'unknown' when id % 31 = 0 then 'pending' when id % 61 = 0 then 'dead' else 'done' end,
      finished_at
    from pushed`);
  await client.query(`
    insert into sync.figures (client, minutes, at, measure, part, value)
    select '', minutes, date_bin(make_interval(mins => minutes), now(), 'epoch') - n * make_interval(mins => minutes), measure, part,
      usual * (0.5 + random()) + case when minutes = 5 and n between 100 and 106 then usual * 4 else 0 end
    from (values (5, 288), (60, 720)) spans (minutes, spans), generate_series(0, spans - 1) n,
      (values ('oldest_pending', '', 4), ('stream_age', 'shipments', 60), ('stream_age', 'orders', 320),
        ('stream_age', 'return-items', 150), ('stream_age', 'inbounds', 140), ('stream_age', 'inbound-packing-slips', 160)
      ) measures (measure, part, usual)
    on conflict do nothing`);
  await client.query('delete from sync.figure_marks');
  await client.query(
    `insert into sync.figure_marks (at, attempt_id) values (date_bin('5 minutes', now() - interval '30 days', 'epoch'), 0)`,
  );
}

/**
 * Stores the row with which an order that the service has shipped was made. Moves the order to the past: the clock of the
 * demo's service is ahead. Pauses all jobs, which would read the order again. Returns the order's number.
 */
export async function storeOrderOfShipment(client: pg.Client): Promise<string> {
  await client.query(`insert into sync.pauses (job, by) select distinct job, 'pictures' from sync.jobs`);
  await waitFor('the end of all runs', async () => (await client.query(running)).rowCount === 0, 60_000);
  const { rows } = await client.query<{ number: string }>(`
    with chosen as (
      select s.external_order_number as number, s.ready_to_pick_on - interval '40 minutes' as at
      from fulfilment.shipments s
      join fulfilment.parcels p on p.client = s.client and p.shipment_id = s.id
      join fulfilment.return_items i on i.client = s.client and i.order_id = s.order_id
      where s.shipped_on is not null and s.external_order_number is not null
      order by s.id
      limit 1
    ), pushed as (
      insert into fulfilment.outbox (kind, reference, status, next_attempt_at, result, created_at, finished_at)
      select 'order.create', number, 'done', null, '{}', at, at + interval '2 minutes' from chosen returning id, reference, created_at
    ), attempts as (
      insert into sync.outbox_attempts (outbox_id, step, by, became, at, duration_ms, error)
      select id, step, 'a worker', became, created_at + pause, 240, error from pushed, (values
        ('sent', 'unknown', interval '1 second', 'the service gave no answer within 30 s'),
        ('looked up', 'done', interval '2 minutes', null)) steps (step, became, pause, error)
    )
    select number from chosen`);
  const [order] = rows;
  if (order === undefined) throw new Error('No order of the demo has a parcel and a return');
  await client.query(
    `update fulfilment.outbox set created_at = created_at - $2::interval, finished_at = finished_at - $2::interval
     where reference = $1`,
    [order.number, past],
  );
  await client.query(
    `update sync.outbox_attempts a set at = a.at - $2::interval from fulfilment.outbox o where o.id = a.outbox_id and o.reference = $1`,
    [order.number, past],
  );
  await client.query(
    `with moved as (
       update fulfilment.shipments s
       set ready_to_pick_on = ready_to_pick_on - $2::interval, ready_to_ship_on = ready_to_ship_on - $2::interval,
         shipped_on = shipped_on - $2::interval, first_seen_at = ready_to_pick_on - $2::interval + interval '2 minutes',
         changed_at = shipped_on - $2::interval + interval '1 minute'
       where external_order_number = $1
       returning s.id, s.order_id, s.shipped_on, s.ready_to_pick_on
     ), ordered as (
       update fulfilment.orders r set first_seen_at = ready_to_pick_on - interval '37 minutes', changed_at = ready_to_pick_on - interval '37 minutes'
       from moved m where m.order_id = r.id
     ), packed as (
       update fulfilment.parcels p
       set shipping_date = p.shipping_date - $2::interval, first_seen_at = m.shipped_on + interval '12 minutes',
         changed_at = m.shipped_on + interval '12 minutes'
       from moved m where m.id = p.shipment_id
     ), traced as (
       update fulfilment.track_trace_events t
       set current_track_trace_status_date_time = t.current_track_trace_status_date_time - $2::interval
       from moved m where m.id = t.shipment_id
     )
     update fulfilment.return_items i
     set processed_on = i.processed_on - 20, restock_on = i.restock_on - $2::interval,
       first_seen_at = (i.processed_on - 20) + interval '10 hours', changed_at = (i.restock_on - $2::interval) + interval '5 minutes'
     from moved m where m.order_id = i.order_id`,
    [order.number, past],
  );
  return order.number;
}
