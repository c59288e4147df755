import { expect, test } from 'vitest';
import { outboxRow } from '../../../../src/serve/api/schemas.ts';
import { useApi } from '../../../helpers/api.ts';
import { useDatabase } from '../../../helpers/database.ts';
import { orderPayload } from '../../../helpers/order-payload.ts';

const database = useDatabase();
const api = useApi(database);
const makeRow = (reference: string) => ({
  kind: 'order.create',
  reference,
  payload: orderPayload(reference),
});
const key = (value: string) => ({ 'idempotency-key': value });
async function readReferences() {
  const rows = await database.query('select reference from fulfilment.outbox order by id');
  return rows.map(({ reference }) => reference);
}

test('a row is stored as an INSERT stores it, with every digit, and read again', async () => {
  const { call } = await api();
  const payload = JSON.stringify(orderPayload('A')).replace('"9.95"', '9.9500000000000000001');
  const body = `{"kind": "order.create", "reference": "A", "payload": ${payload}, "not_before": "2099-01-01T00:00:00+01:00"}`;
  const answer = await call('/v1/outbox', body);
  expect([answer.status, answer.json]).toEqual([202, { id: expect.any(Number) }]);
  expect(await database.query('select client, kind, not_before from fulfilment.outbox')).toEqual([
    {
      ...{ client: 'default', kind: 'order.create' },
      not_before: new Date('2098-12-31T23:00:00Z'),
    },
  ]);
  const row = await call(`/v1/outbox/${answer.json.id}`);
  expect(outboxRow.strict().parse(row.json)).toMatchObject({ status: 'pending', reference: 'A' });
  expect(row.text).toContain('9.9500000000000000001');
});

test('everything that is wrong with a row is named, and nothing is inserted', async () => {
  const { call } = await api();
  const problems = async (body: unknown) => {
    const { status, json } = await call('/v1/outbox', body);
    return [status, ...(json.problems ?? [json.detail])];
  };
  expect(await problems({ reference: '', payload: {}, more: 1 })).toEqual([
    422,
    'kind is missing',
    expect.stringContaining('reference'),
    expect.stringContaining('more'),
  ]);
  const nulPayload = { ...orderPayload('A'), email: 'a\0b' };
  for (const [body, words] of [
    [{ kind: 'order.paint', reference: 'A' }, 'no kind order.paint'],
    [{ ...makeRow('A'), not_before: 'soon' }, 'not_before must be a time'],
    [[], 'must have 1 to 500 rows'],
    [Array.from({ length: 501 }, () => ({})), '500'],
    [{ ...makeRow('A'), payload: nulPayload }, 'NUL'],
    [makeRow('A\0'), ''],
  ] as const)
    expect(await problems(body)).toEqual([422, expect.stringContaining(words)]);
  const huge = await call('/v1/outbox', {
    ...makeRow('A'),
    payload: { text: 'x'.repeat(17 * 1024 * 1024) },
  });
  expect(huge.status).toBe(413);
  expect(huge.json.detail).toContain('16 MB');
  expect(await readReferences()).toEqual([]);
});

test('the same key with the same body answers with the same ids, and with another body is refused', async () => {
  const { call, as } = await api();
  const first = await call('/v1/outbox', [makeRow('A'), makeRow('B')], key('k'));
  const again = await call('/v1/outbox', [makeRow('A'), makeRow('B')], key('k'));
  expect([again.status, again.json]).toEqual([202, first.json]);
  const changed = await call('/v1/outbox', [makeRow('A')], key('k'));
  expect([changed.status, changed.json.detail]).toEqual([
    422,
    expect.stringContaining('Idempotency-Key'),
  ]);
  // A row that a worker would refuse by now is not checked again.
  await database.query(`
    insert into fulfilment.setting_options (client, list, id, code, name, raw) values ('default', 'orderTypes', 1, 'X', 'X', '{}')`);
  expect((await call('/v1/outbox', [makeRow('A'), makeRow('B')], key('k'))).json).toEqual(
    first.json,
  );
  expect(await readReferences()).toEqual(['A', 'B']);
  await database.query('delete from fulfilment.setting_options');
  // Keys of other tokens and other clients are others.
  for (const token of ['writer', 'other'])
    expect(
      (await as(token)('/v1/outbox', [makeRow('A'), makeRow('B')], key('k'))).json,
    ).not.toEqual(first.json);
  expect(await readReferences()).toHaveLength(6);
});

test('of twenty requests at once with one key, one inserts', async () => {
  const { call } = await api();
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => call('/v1/outbox', makeRow('A'), key('k'))),
  );
  expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
  expect(answers[0]?.status).toBe(202);
  expect(await readReferences()).toEqual(['A']);
});

test('an array with a wrong row is not inserted; a check names the same problems', async () => {
  const { call, as } = await api();
  const wrong = { ...makeRow('E'), payload: { ...orderPayload('E'), currency: 'EUR', items: [] } };
  expect((await call('/v1/outbox/check', makeRow('A'))).json).toEqual({
    problems: [],
    why_unchecked: expect.stringContaining('refresh-settings'),
  });
  const checked = await call('/v1/outbox/check', [makeRow('A'), wrong]);
  const refused = await call('/v1/outbox', [makeRow('A'), wrong]);
  expect([checked.status, refused.status]).toEqual([200, 422]);
  for (const { json } of [checked, refused])
    expect(json.problems).toEqual([
      expect.stringMatching(/^\[1\] items/),
      expect.stringMatching(/^\[1\] currency/),
    ]);
  expect((await call('/v1/outbox/check', { kind: 'order.create' })).status).toBe(422);
  expect((await as('reader')('/v1/outbox/check', makeRow('A'))).status).toBe(403);
  expect(await readReferences()).toEqual([]);
});

test('a dead row is corrected or cancelled by its client, and sent again in its place', async () => {
  const { call, as } = await api();
  const { id } = (await call('/v1/outbox', makeRow('A'))).json;
  const readRow = async () => (await call(`/v1/outbox/${id}`)).json;
  const die = () =>
    database.query(`update fulfilment.outbox set status = 'dead', last_error = 'no', next_attempt_at = null,
      finished_at = now()`);
  await die();

  const wrong = { ...makeRow('A'), payload: { ...orderPayload('A'), items: [] } };
  const others = await Promise.all([
    as('other')(`/v1/outbox/${id}/replace`, makeRow('A')),
    as('other')(`/v1/outbox/${id}/cancel`, ''),
    as('reader')(`/v1/outbox/${id}/replace`, makeRow('A')),
    call(`/v1/outbox/${id}/replace`, wrong),
    call(`/v1/outbox/${id}/replace`, makeRow('B')),
    call(`/v1/outbox/${id}/replace`, [makeRow('A')]),
  ]);
  expect(others.map(({ status }) => status)).toEqual([404, 404, 403, 422, 422, 422]);
  expect(await readRow()).toMatchObject({ status: 'dead', last_error: 'no' });

  const body = JSON.stringify(makeRow('A')).replace('"9.95"', '9.9500000000000000001');
  expect((await call(`/v1/outbox/${id}/replace`, body)).json).toEqual({ id });
  expect(await readRow()).toMatchObject({
    status: 'pending',
    history: [expect.objectContaining({ step: 'replaced', by: 'token erp' })],
  });
  expect((await call(`/v1/outbox/${id}`)).text).toContain('9.9500000000000000001');

  await die();
  expect((await call(`/v1/outbox/${id}/cancel`, '')).json).toEqual({ id });
  const late = [
    await call(`/v1/outbox/${id}/cancel`, ''),
    await call(`/v1/outbox/${id}/replace`, makeRow('A')),
  ];
  expect(late.map(({ status }) => status)).toEqual([409, 409]);
  expect(await readRow()).toMatchObject({ status: 'cancelled' });
});

test('a replacement keeps the time of its row, and refuses another one', async () => {
  const { call } = await api();
  const row = { ...makeRow('A'), notBefore: '2099-01-01T00:00:00Z' };
  const { id } = (await call('/v1/outbox', row)).json;
  const replace = (changes: object) => call(`/v1/outbox/${id}/replace`, { ...row, ...changes });
  expect((await replace({ notBefore: '2098-01-01T00:00:00Z' })).json).toMatchObject({
    status: 422,
    detail: expect.stringContaining('not_before'),
  });
  expect((await replace({ notBefore: '2099-01-01T01:00:00+01:00' })).status).toBe(200);
  expect((await replace({ notBefore: undefined })).status).toBe(200);
  expect((await call(`/v1/outbox/${id}`)).json.not_before).toBe('2099-01-01T00:00:00.000Z');
});

test('a row with two times, or a body that is not UTF-8, is refused', async () => {
  const { call, server } = await api();
  const times = { not_before: '2098-01-01T00:00:00Z', notBefore: '2099-01-01T00:00:00Z' };
  expect((await call('/v1/outbox', { ...makeRow('A'), ...times })).status).toBe(422);
  const answer = await fetch(`http://127.0.0.1:${server.port}/v1/outbox`, {
    method: 'POST',
    headers: { authorization: 'Bearer erp', 'content-type': 'application/json' },
    body: Buffer.from(JSON.stringify(makeRow('Caf\u00e9')), 'latin1'),
  });
  expect([answer.status, await answer.text()]).toEqual([400, expect.stringContaining('UTF-8')]);
  expect(await readReferences()).toEqual([]);
});
