import { expect, test } from 'vitest';
import { done, usePulls } from '../../helpers/puller.ts';
import { emptyList, lively } from '../../helpers/sandbox.ts';
import { useEditedService } from '../../helpers/services/edited-service.ts';

const { database, sandbox, pull, findDifferences } = usePulls(lively);
const service = useEditedService(sandbox);

const day = 86_400;
const job = 'pull-inbound-packing-slips';
const differences = () => findDifferences(['inbound-packing-slips']);
const slips = 'fulfilment.inbound_packing_slips';
const readOpen = () => database.ids(`${slips} where status <> 'COMPLETED'`);
const readMarked = () => database.ids(`${slips} where unlisted_since is not null`);
/** Hides the first slip of a list for some days. */
const hideFirst = (days: number) =>
  sandbox.faults({
    operation: 'v3.inboundPackingSlips.list',
    count: 1,
    effect: { hideRow: { index: 0, seconds: days * day } },
  });

test('an open slip on neither list is marked after two polls, until it is listed again', async () => {
  await sandbox.advance(15 * day);
  done(await pull(job));
  const [hidden] = await readOpen();
  await hideFirst(2);
  done(await pull(job));
  expect(await readMarked()).toEqual([]);
  const { warnings } = done(await pull(job));
  expect(await readMarked()).toEqual([hidden]);
  expect(warnings?.join()).toContain(String(hidden));
  await sandbox.advance(3 * day);
  expect(done(await pull(job)).warnings).toEqual([]);
  expect(await differences()).toEqual([]);
});

test.each([
  ['failed', 500],
  ['met an outage', 401],
])(
  'two polls that lack an open slip count only if no poll between them %s',
  async (_name, status) => {
    await sandbox.advance(15 * day);
    const env = service.env();
    done(await pull(job, { env }));
    const [hidden] = await readOpen();
    const hide = () =>
      service.edit((_request, answer) => {
        const document = JSON.parse(answer.body);
        if (!Array.isArray(document.data)) return;
        document.data = document.data.filter(({ id }: { id: number }) => id !== hidden);
        answer.body = JSON.stringify(document);
      });

    hide();
    done(await pull(job, { env }));
    let isDown = false;
    service.edit((request, answer) => {
      isDown ||= request.includes('filter[completedOn]');
      if (isDown) answer.status = status;
    });
    expect(await pull(job, { env })).toMatchObject({ status: 'failed' });
    hide();
    done(await pull(job, { env }));
    expect(await readMarked()).toEqual([]);

    done(await pull(job, { env }));
    expect(await readMarked()).toEqual([hidden]);
  },
);

test.each([
  [
    'a slip that is too old to be listed is named in a warning, but never marked',
    'older than the 90 days',
    async () => {
      const [old] = await readOpen();
      await database.query(`update ${slips} set expected_on = '2026-01-01' where id = $1`, [old]);
      await hideFirst(9);
    },
  ],
  [
    'if both lists are empty, no slip is marked, and the poll warns',
    'so none was marked',
    () => sandbox.faults({ operation: 'v3.inboundPackingSlips.list', effect: emptyList }),
  ],
])('%s', async (_name, words, prepare) => {
  await sandbox.advance(15 * day);
  done(await pull(job));
  await prepare();
  for (let polls = 0; polls < 3; polls++)
    expect(done(await pull(job)).warnings?.join()).toContain(words);
  expect(await readMarked()).toEqual([]);
});

test.each([
  ['COMPLETED', '2026-04-01T10:00:00Z'],
  ['CANCELLED', null],
])('a slip that only the list without a filter shows, as %s, is not marked', async (status, at) => {
  await sandbox.advance(15 * day);
  const env = service.env();
  done(await pull(job, { env }));
  const [id] = await readOpen();
  const asked: string[] = [];
  service.edit((request, answer) => {
    if (!request.startsWith('GET /v3/inboundPackingSlips')) return;
    asked.push(request);
    const document = JSON.parse(answer.body);
    const isFiltered = request.includes('filter[');
    document.data = document.data.filter((slip: { id: number }) => slip.id !== id || !isFiltered);
    for (const slip of document.data)
      if (slip.id === id) Object.assign(slip.attributes, { status, completedOn: at });
    answer.body = JSON.stringify(document);
  });

  for (let polls = 0; polls < 3; polls++)
    expect(done(await pull(job, { env })).warnings).toEqual([]);
  expect(await readMarked()).toEqual([]);
  expect(await database.query(`select status from ${slips} where id = $1`, [id])).toEqual([
    { status },
  ]);
  expect(asked.filter((request) => !request.includes('filter['))).toHaveLength(1);
});
