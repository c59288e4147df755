import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { outboxKinds } from '../../../src/push/kinds/registry.ts';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { useProcesses } from '../../helpers/processes/processes.ts';
import { runCommand } from '../../helpers/processes/run-command.ts';
import { done, usePuller } from '../../helpers/puller.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const processes = useProcesses();
const folder = mkdtempSync(join(tmpdir(), 'outbox-check-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** Writes a payload to a file and returns its name. */
function write(payload: unknown): string {
  const file = join(folder, 'payload.json');
  writeFileSync(file, typeof payload === 'string' ? payload : JSON.stringify(payload));
  return file;
}
const check = (kind: string, payload: unknown, ...options: string[]) =>
  runCommand(['outbox', 'check', kind, write(payload), ...options]);

describe('outbox check without a database', () => {
  test('finds no problem in a valid payload, and says that codes were not checked', async () => {
    expect(await check('order.create', orderPayload('SO-1', { orderType: 'NO SUCH' }))).toEqual({
      code: 0,
      output:
        'No problems were found in this payload of order.create.\nCodes were not checked: name the client with --client',
    });
    expect((await check('order.cancel', {}, '--client', 'default')).output).toMatch(
      /^Codes were not checked: DATABASE_URL is not set$/m,
    );
  });

  test('prints all problems that a worker would name, and ends with 1', async () => {
    const payload = {
      ...orderPayload('SO-1', { locale: undefined, currency: 'EUR', orderTypeId: 1 }),
      colour: 'red',
    };
    const { code, output } = await check('order.create', payload, '--reference', 'SO-2');
    expect(code).toBe(1);
    expect(output.split('\n').slice(0, -1).sort()).toEqual([
      'currency: exists only in the older order operation, which this program does not call; in v3 it is read-only',
      'externalOrderNumber: must equal the reference of the row, "SO-2"',
      'locale: is missing',
      'orderType: give either orderType (code) or orderTypeId',
      '«colour»: is not a known member and must be removed',
    ]);
  });

  test('ends with 2 for an unknown kind, naming the known ones, and for a missing file', async () => {
    const unknown = await check('order.crate', {});
    expect(unknown.code).toBe(2);
    for (const { name } of outboxKinds) expect(unknown.output).toContain(name);
    const missing = await runCommand([
      'outbox',
      'check',
      'order.cancel',
      join(folder, 'nothing.json'),
    ]);
    expect(missing).toMatchObject({
      code: 2,
      output: expect.stringContaining('nothing.json cannot be read'),
    });
  });

  test('names the line and column of a text that is not JSON', async () => {
    const text = '{\n  "items": [{"sku": "MUG"},],\n  "items2": [1,]\n}\n';
    expect((await check('order.create', text)).output).toMatch(/line 2 column 28\b/);
    expect((await check('order.create', '{\n  "a": tru,\n  "b": 1\n}')).output).toMatch(
      /line 2 column 11\b/,
    );
    expect((await check('order.create', '{\n  "a": 1')).output).toMatch(/line 2 column 9\b/);
  });

  test('reads standard input', async () => {
    const cli = processes.cli(['outbox', 'check', 'order.cancel', '-']);
    expect((await cli.ended).code).toBe(1);
    expect(cli.output).toMatch(/^payload: is not JSON that can be read: /);
  });
});

describe('outbox check with a database', () => {
  const database = useDatabase();
  const sandbox = useSandbox(['default'], quiet);
  const pull = usePuller(database, sandbox);
  const checkCodes = (kind: string, payload: unknown) =>
    runCommand(['outbox', 'check', kind, write(payload), '--client', 'default'], {
      DATABASE_URL: database.url,
    });

  test('compares codes with the stored service lists of the client, and inserts nothing', async () => {
    const wrong = orderPayload('SO-1', { orderType: 'B2X', shippingMethod: 'DRONE' });
    expect(await checkCodes('order.create', wrong)).toEqual({
      code: 0,
      output:
        'No problems were found in this payload of order.create.\nCodes were not checked: no service lists are stored for the client default; run refresh-settings first',
    });
    done(await pull('refresh-settings'));
    expect(await checkCodes('order.create', wrong)).toEqual({
      code: 1,
      output:
        'orderType: there is no code B2X (known codes: B2B, B2C)\nshippingMethod: there is no code DRONE (known codes: LETTERBOX, PALLET, PARCEL)',
    });
    expect(await checkCodes('order.create', orderPayload('SO-1'))).toEqual({
      code: 0,
      output: 'No problems were found in this payload of order.create.',
    });
    const unlisted = orderPayload('SO-1', {
      locale: 'xx-XX',
      shippingMethod: 'PALLET',
      fulfillFrom: 'AMS',
    });
    expect(await checkCodes('order.create', unlisted)).toEqual({
      code: 1,
      output:
        'locale: there is no code xx-XX (known codes: de-DE, fr-BE, nl-NL)\nfulfillFrom: shipping method PALLET is not offered in AMS (offered in: EIN)',
    });
    const label = await checkCodes('return_label.create', { shipmentId: 1, shippingMethod: 'X' });
    expect(label).toMatchObject({
      code: 1,
      output: expect.stringMatching(/^shippingMethod: there is no code X/),
    });
    expect(await database.query('select from fulfilment.outbox')).toEqual([]);
  });
});
