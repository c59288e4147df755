import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Validator } from '@seriousme/openapi-schema-validator';
import { expect, test } from 'vitest';
import { useApi } from '../../../helpers/api.ts';
import { useDatabase } from '../../../helpers/database.ts';

const database = useDatabase();
const api = useApi(database);

test('/openapi.json needs no token, is valid, and is docs/openapi.json', async () => {
  const { as } = await api();
  const { status, json } = await as(null)('/openapi.json');
  expect(status).toBe(200);
  const checked = await new Validator().validate(structuredClone(json));
  expect([checked.errors, checked.valid]).toEqual([undefined, true]);
  const fixed = { ...json, info: { ...json.info, version: '' } };
  await expect(`${JSON.stringify(fixed, null, 2)}\n`).toMatchFileSnapshot(
    '../../../../docs/openapi.json',
  );
});

test('the commands of docs/api.md succeed', async () => {
  const { server } = await api();
  const page = await readFile(new URL('../../../../docs/api.md', import.meta.url), 'utf8');
  const [, block = ''] = /```sh\n(.*?)```/s.exec(page) ?? [];
  const lines = block.trim().split('\n');
  expect(lines).toHaveLength(7);
  const folder = await mkdtemp(join(tmpdir(), 'fulfilment-sync-api-'));
  try {
    const [, row = ''] = /```json\n(.*?)```/s.exec(page) ?? [];
    await writeFile(join(folder, 'row.json'), row);
    const env = { ...process.env, API: `http://127.0.0.1:${server.port}`, TOKEN: 'erp', ID: '1' };
    const answers = [];
    for (const line of lines) {
      const { stdout } = await promisify(execFile)(
        'sh',
        ['-c', line.replace(/^curl/, 'curl --silent')],
        {
          env,
          cwd: folder,
        },
      );
      answers.push(JSON.parse(stdout));
    }
    expect(answers).toMatchObject([
      { problems: [] },
      { id: 1 },
      { id: 1, status: 'pending' },
      { changes: [], next: 0, has_more: false },
      { orders: [] },
      { status: 404 },
      { sku: 'MUG-BLUE' },
    ]);
  } finally {
    await rm(folder, { recursive: true });
  }
});
