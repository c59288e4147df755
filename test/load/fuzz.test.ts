import { expect, test } from 'vitest';
import { parseExact } from '../../src/core/json.ts';
import { commitReading } from '../../src/pull/commit.ts';
import { decodePage } from '../../src/pull/decode.ts';
import type { ResourceRows } from '../../src/pull/sql/mirror-tables.ts';
import { drawReadNo } from '../../src/pull/sql/stream-transaction.ts';
import { type Stream, toPullContext } from '../../src/pull/stream.ts';
import { streams } from '../../src/pull/streams/all-streams.ts';
import { readIds } from '../../src/pull/walk.ts';
import { Random } from '../../src/sandbox/random.ts';
import type { RunContext } from '../../src/schedule/run.ts';
import { decodeDocument } from '../../src/service/decoding/jsonapi.ts';
import { encodeQuery } from '../../src/service/transport/query.ts';
import { ServiceClient } from '../helpers/client.ts';
import { useDatabase } from '../helpers/database.ts';
import { done, useWork } from '../helpers/puller.ts';
import { lively, useSandbox } from '../helpers/sandbox.ts';

const database = useDatabase();
const sandbox = useSandbox(['default'], lively);
const work = useWork(database, sandbox);

/** Minutes of work; without them, there are 4,000 documents. `npm run fuzz` sets them. */
const minutes = Number(process.env.FUZZ_MINUTES ?? 0);
const fewDocuments = 4_000;
const batch = 100;
/**
 * The smallest ids that this test gives out. Smaller ids come from mutations, and several resources
 * may share them.
 */
const firstId = 1_000_000;
const firstLineId = 10_000_000_000;

type Node = Record<string | number, unknown>;

/**
 * Values that decoders or databases may not accept. JSON.rawJSON keeps digits that a JavaScript
 * number would lose.
 */
const garbage: readonly (() => unknown)[] = [
  () => null,
  () => undefined,
  () => 0,
  () => -1,
  () => 2 ** 31,
  () => 1.5,
  () => JSON.rawJSON('1e999999'),
  () => JSON.rawJSON('9007199254740993'),
  () => JSON.rawJSON('123456789012345678901234567890.123456789012345678901'),
  () => JSON.rawJSON('1.10'),
  () => '',
  () => '\u0000',
  () => '\ud800',
  () => 'x'.repeat(3_000),
  () => '2026-02-30',
  () => '9999-12-31',
  () => '+275760-09-13T00:00:00Z',
  () => '2026-03-29T02:30:00.1234567',
  () => '0000-00-00T00:00:00Z',
  () => '12',
  () => true,
  () => [],
  () => ({}),
  () => ({ __proto__: { a: 1 }, constructor: 1 }),
  () => ({ toString: 1, valueOf: 1, toJSON: 1 }),
  () => [null, [[]]],
  () => Array.from({ length: 50 }, (_, index) => ({ id: index, type: 'orderItem' })),
  () => JSON.parse('['.repeat(400) + ']'.repeat(400)),
];

/** Returns every place in a resource: an object or array, and a key of it. */
function listPlaces(
  node: unknown,
  places: [Node, string | number][] = [],
): [Node, string | number][] {
  if (typeof node !== 'object' || node === null || JSON.isRawJSON(node)) return places;
  for (const key of Array.isArray(node) ? node.keys() : Object.keys(node)) {
    places.push([node as Node, key]);
    listPlaces((node as Node)[key], places);
  }
  return places;
}

/** Copies a value through its JSON text, because structuredClone cannot copy raw JSON numbers. */
const clone = (value: unknown) =>
  value === undefined ? undefined : parseExact(JSON.stringify(value));

function mutate(resource: Node, random: Random): unknown {
  for (let left = random.between(0, 3); left > 0; left--) {
    const places = listPlaces(resource);
    if (places.length === 0) return resource;
    const [[node, key], [from, fromKey]] = [random.pick(places), random.pick(places)];
    const kind = random.between(0, 4);
    if (kind === 0 && !Array.isArray(node)) delete node[key];
    else if (kind === 1)
      node[key] =
        from[fromKey] === node || listPlaces(from[fromKey]).length > 200 ? 7 : clone(from[fromKey]);
    else if (kind === 2 && typeof node[key] === 'string')
      node[key] = `${node[key]}${random.pick(['\u0000', ' ', '€', 'Z', '0'])}`;
    else node[key] = random.pick(garbage)();
  }
  return random.chance(0.005) ? random.pick(garbage)() : resource;
}

/**
 * Returns the document with the included resources at its top, as far as the mutated resources
 * still hold them.
 */
function moveIncludedToTop(data: readonly unknown[]): object {
  const included = data.flatMap((resource) => {
    const nested = (resource as Node | null)?.included;
    return Array.isArray(nested) ? nested : [];
  });
  const bare = data.map((resource) =>
    typeof resource === 'object' &&
    resource !== null &&
    !Array.isArray(resource) &&
    !JSON.isRawJSON(resource)
      ? { ...resource, included: undefined }
      : resource,
  );
  return { data: bare, included };
}

/**
 * Reads by id whether `raw` of each resource is stored unchanged, and how many rows it has in each
 * child table.
 */
async function readStored(
  stream: Stream,
  resources: readonly ResourceRows[],
): Promise<Map<number, string>> {
  const counts = stream.tables.children.map(
    ({ name, parentColumn }) =>
      `(select count(*) from fulfilment.${name} c where c.client = t.client and c.${parentColumn} = t.id and (c.id >= ${firstLineId} or '${name}' = 'order_addresses'))`,
  );
  const rows = await database.query<{ id: string; stored: string }>(
    `select id, concat_ws('/', t.raw = i.raw, ${counts.join(', ') || 'null'}) as stored
     from fulfilment.${stream.tables.parent.name} t
     join json_to_recordset($1) as i (id bigint, raw jsonb) using (id)`,
    [JSON.stringify(resources.map(({ parent }) => ({ id: parent.id, raw: parent.raw })))],
  );
  return new Map(rows.map(({ id, stored }) => [Number(id), stored]));
}

async function fuzzStream(
  context: RunContext,
  stream: Stream,
  random: Random,
): Promise<[stored: number, quarantined: number]> {
  const client = new ServiceClient(sandbox, 'default');
  await client.logIn();
  const query = stream.include.length > 0 ? encodeQuery({ include: stream.include }) : '';
  const { body } = await client.ask(stream.list, { query });
  let [stored, quarantined, nextId] = [0, 0, firstId];
  const endMs = performance.now() + (minutes * 60_000) / streams.length;
  const fewest = fewDocuments / streams.length;
  for (let count = 0; count < fewest || performance.now() < endMs; count += batch) {
    const data = Array.from({ length: batch }, () => {
      const resource = structuredClone(random.pick(body.data)) as unknown as Node;
      resource.id = nextId++;
      // The child rows of each resource get new ids, so that no two resources share one.
      for (const [, line] of listPlaces({ included: resource.included }).entries())
        if (line[1] === 'id' && typeof line[0].id === 'number')
          line[0].id = line[0].id * 10_000_000 + nextId;
      for (const relation of Object.values(
        resource.relationships as Record<string, { data: unknown } | null>,
      ))
        if (Array.isArray(relation?.data))
          for (const link of relation.data) link.id = link.id * 10_000_000 + nextId;
      return mutate(resource, random);
    });
    const document = decodeDocument(
      stream.list,
      JSON.stringify(random.chance(0.3) ? moveIncludedToTop(data) : { data }),
      'list',
    );
    const readNo = await drawReadNo(context.db);
    const decoded = await decodePage(document, stream.decoder(context.zone));
    // Of resources that are read by id, all may be undecodable.
    const reading = { readNo, pages: 0, received: document.data.length, decoded };
    const pull = toPullContext(context, stream);
    const page = await commitReading(pull, reading, async (_transaction, read) => read);
    if (page === null) throw new Error('nothing was committed');
    expect(page.resources.length + page.quarantined.length).toBe(batch);
    const found = await readStored(stream, page.resources);
    const last = new Map(page.resources.map((resource) => [resource.parent.id, resource]));
    for (const { parent, children } of last.values()) {
      const lines = stream.tables.children.map(({ name }) => {
        const rows = children.filter(({ table }) => table === name).flatMap((set) => set.rows);
        if (name === 'order_addresses') return new Set(rows.map(({ role }) => role)).size;
        return new Set(rows.map(({ id }) => id ?? 0).filter((id) => id >= firstLineId)).size;
      });
      if (parent.id < firstId || parent.id >= nextId) continue;
      expect(found.get(parent.id)).toBe(['t', ...lines].join('/'));
    }
    const quarantinedIds = new Set(page.quarantined.map(({ resourceId }) => resourceId));
    for (const id of readIds(document.data))
      if (!last.has(id)) expect(quarantinedIds.has(id)).toBe(true);
    stored += page.resources.length;
    quarantined += page.quarantined.length;
  }
  return [stored, quarantined];
}

// This test computes for minutes. On a slow machine that takes longer than the usual limit for a
// test.
test('mutated resources: no crash, each stored whole or quarantined', {
  timeout: 400_000 + minutes * 120_000,
}, async () => {
  await sandbox.advance(40 * 86_400);
  const counts: Record<string, [number, number]> = {};
  const random = new Random(11);
  done(
    await work('refetch', async (context) => {
      for (const stream of streams) counts[stream.name] = await fuzzStream(context, stream, random);
    }),
  );
  process.stdout.write(`stored/quarantined: ${JSON.stringify(counts)}\n`);
  for (const [stored, quarantined] of Object.values(counts))
    expect(Math.min(stored, quarantined)).toBeGreaterThan((stored + quarantined) / 10);
});
