import { describe, expect, test } from 'vitest';
import type { Finding } from '../../../../src/sandbox/findings.ts';
import { operations } from '../../../../src/sandbox/operations/all.ts';
import { useClient } from '../../../helpers/client.ts';
import { quiet, useSandbox } from '../../../helpers/sandbox.ts';

const sandbox = useSandbox(['default'], quiet);
const client = useClient(sandbox);
const describedSandbox = useSandbox(['default'], { ...quiet, onlyDescribed: true });
const describedClient = useClient(describedSandbox);

describe('what the interface does not name', () => {
  const extras = operations.filter(({ described }) => !described);
  const readPaths = async (url: URL) =>
    (
      (await (await fetch(new URL('/openapi.json', url))).json()) as {
        paths: Record<string, Record<string, Record<string, unknown>>>;
      }
    ).paths;

  test('is marked in the OpenAPI document', async () => {
    const marked = Object.values(await readPaths(sandbox.url)).flatMap((methods) =>
      Object.values(methods).filter((operation) => operation['x-not-in-description'] === true),
    );
    expect(marked.map(({ operationId }) => operationId).sort()).toEqual(extras.map(({ name }) => name).sort());
    expect(JSON.stringify(marked)).not.toContain('"x-documented":true');
  });

  test('causes a finding, for operations and for members', async () => {
    await client.ask('v2.product.search', { query: 'sku=MUG-BLUE' });
    const body = { ExternalOrderNumber: 'F-1', PickUpPointId: '1' };
    await client.ask('oldest.order.add', { body });
    const { findings } = await sandbox.call<{ findings: Finding[] }>('GET', '/_sandbox/findings');
    const rows = findings.filter(({ code }) => code === 'not_in_description');
    expect(rows.map(({ operation, member, shape }) => [operation, member, shape])).toEqual(
      expect.arrayContaining([
        ['v2.product.search', '', 'GET /v2/product/search'],
        ['oldest.order.add', 'PickUpPointId', 'text'],
      ]),
    );
    expect(rows[0]?.advice).toContain('your service');
  });

  test.each(extras.map(({ name, method, path }) => [name, method, path]))(
    '%s is an unknown route of a sandbox with only what is described',
    async (_name, method, path) => {
      const place = await describedSandbox.lastPlace();
      const answer = await describedClient.fetch(method, path.replace(':all', 'true'));
      expect(answer.status).toBe(404);
      expect((await describedSandbox.requests(place)).map(({ operation }) => operation)).toEqual([null]);
    },
  );

  test('is not in the OpenAPI document of such a sandbox', async () => {
    const document = JSON.stringify(await readPaths(describedSandbox.url));
    expect(document).not.toContain('x-not-in-description');
    expect(document).not.toMatch(/PickUpPointId|stock\/bulk/);
  });
});
