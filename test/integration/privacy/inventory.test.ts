import { expect, test } from 'vitest';
import { findPersonalColumns } from '../../../src/privacy/personal-columns.ts';
import { quotingColumns } from '../../../src/privacy/sql/quoted-words.ts';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();

const splitWords = (text: string) => text.trim().split(/\s+/);

/** Columns of schema sync that an erasure masks or removes quoted words from. */
const erasedInSync = new Set([
  'sync.outbox_attempts.error',
  'sync.quarantine.document',
  'sync.quarantine.reason',
  ...quotingColumns.map(({ table, column }) => `${table}.${column}`),
]);

/**
 * Names of columns that hold no personal data in any table: codes, states and kinds, numbers of the
 * ERP, the service or a carrier, and names that we or operators choose.
 */
const harmlessNames = new Set(
  splitWords(`
  condition country_code currency kind locale operation outcome refused_as role severity state
  status trigger type became tracking_state slip_status package_statuses track_trace_statuses
  current_track_trace_exception_level current_track_trace_status last_outcome mime_type
  code carrier_code error_code last_code last_error_code problem_code reason_code warehouse_code
  last_operation
  carrier_name order_type order_type_name return_reason return_reason_name shipment_method
  shipping_method shipping_method_name channel_identifier
  expected_in fulfill_from processed_in received_in restock_in warehouse
  external_order_number external_reference collo_number lot_number package_number package_numbers
  return_package_number serial_numbers sku slip_reference source_key
  client clients job stream worker run_job run_worker receiver holder family lane turn entity list
  accepted_by applied_by by erased_by identity offered_identity base_url offered_base_url
  place confirmed_mark found_mark table_mark`),
);

/** Columns whose names say too little: none of them holds personal data. */
const harmlessColumns = new Set(
  splitWords(`
  fulfilment.carrier_links.url fulfilment.changes.changed_columns fulfilment.changes.key
  fulfilment.consumers.name fulfilment.documents.reference fulfilment.inbound_items.raw
  fulfilment.inbound_packing_slip_items.raw fulfilment.inbound_packing_slips.comments
  fulfilment.inbound_packing_slips.metadata fulfilment.inbound_packing_slips.raw
  fulfilment.inbound_packing_slips.reference fulfilment.inbounds.raw fulfilment.inbounds.reference
  fulfilment.open_inbound_expectations.reference fulfilment.outbox.reference
  fulfilment.outbox_open.reference fulfilment.parcel_overview.items
  fulfilment.parcels.shipment_items fulfilment.received_goods.reference
  fulfilment.service_product_candidates.reason fulfilment.setting_options.name
  fulfilment.setting_options.raw
  sync.admin_sessions.id
  sync.alerts.detail sync.alerts.remedy sync.alerts.scope
  sync.alerts.subject sync.alerts.text sync.api_keys.body_hash sync.api_keys.key
  sync.api_keys.token sync.audit.action sync.audit.detail sync.carrier_links.url
  sync.clients.queue_error sync.cursors.meaning sync.cursors.pass sync.cursors.query
  sync.deliveries.body sync.deliveries.last_error sync.deliveries.number
  sync.findings.finding sync.leases.name sync.locks.name
  sync.migrations.name sync.new_changes.changed_columns sync.new_changes.key
  sync.outbox_attempts.step sync.outbox_kinds.schema
  sync.outbox_kinds.document sync.outbox_kinds.overtaken_by
  sync.outbox_targets.present sync.proven_kinds.method
  sync.proven_kinds.path sync.push_database.accepted_as sync.push_database.mark
  sync.quarantine.member_path sync.quarantine.resource_key sync.receivers.last_error
  sync.receivers.name sync.receivers.types sync.rescans.meaning sync.rescans.query
  sync.rescans.windows sync.schema_parts.part sync.service_health.scope
  sync.turns.name sync.turns.scope sync.waiting_reads.reason sync.waiting_reads.resource`),
);

/** Types that cannot hold personal data without a column that says whose they are. */
const valueTypes = splitWords(`bigint bigint[] boolean date float8 integer numeric smallint
  timestamptz uuid xid8 pg_snapshot`);

/** A column that may hold personal data, because of its type. */
interface FreeColumn {
  readonly relation: string;
  readonly name: string;
  /** Tables and views that a view reads; empty for a table. */
  readonly sources: readonly string[];
}

/** Reads the columns of all tables, and of the views that the ERP reads. */
const readFreeColumns = () =>
  database.query<FreeColumn>(
    `select format('%s.%s', n.nspname, c.relname) as relation, a.attname as name,
       coalesce((
         select array_agg(distinct t.relname::text)
         from pg_rewrite r
         join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
         join pg_class t on t.oid = d.refobjid and t.relkind in ('r', 'v') and t.oid <> c.oid
         where r.ev_class = c.oid), '{}') as sources
     from pg_class c
     join pg_namespace n on n.oid = c.relnamespace
     join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where (c.relkind = 'r' and n.nspname in ('fulfilment', 'sync')
         or c.relkind = 'v' and n.nspname = 'fulfilment')
       and a.atttypid <> all ($1::text[]::regtype[])
     order by 1, 2`,
    [valueTypes],
  );

const isPersonal = ({ relation, name }: FreeColumn) => {
  const [schema, table = ''] = relation.split('.');
  return schema === 'sync'
    ? erasedInSync.has(`${relation}.${name}`)
    : findPersonalColumns(table).includes(name);
};

/** Returns true if a column is named as a personal one of a table that its view reads. */
const mayBePersonal = ({ name, sources }: FreeColumn) =>
  sources.some((source) => findPersonalColumns(source).includes(name));

test('each text and document of a table or view is personal or known to be harmless', async () => {
  const columns = await readFreeColumns();
  const isHarmless = (column: FreeColumn) =>
    (harmlessNames.has(column.name) && !mayBePersonal(column)) ||
    harmlessColumns.has(`${column.relation}.${column.name}`);

  const unknown = columns.filter((column) => !isPersonal(column) && !isHarmless(column));
  expect(unknown.map(({ relation, name }) => `${relation}.${name}`)).toEqual([]);
});
