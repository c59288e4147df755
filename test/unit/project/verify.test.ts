import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { createGoodsChecks } from '../../../src/app/verify/goods-checks.ts';
import { readOnlyChecks } from '../../../src/app/verify/read-checks.ts';
import { listAlternatives } from '../../../src/app/verify/route-checks.ts';
import { Service } from '../../../src/app/verify/service.ts';
import { createOrderChecks } from '../../../src/app/verify/write-checks.ts';
import { WriteSession } from '../../../src/app/verify/write-session.ts';

const read = (name: string) => readFileSync(new URL(`../../../docs/${name}`, import.meta.url), 'utf8');
const session = new WriteSession(Object.create(Service.prototype) as Service, null);
const checks = [...readOnlyChecks, ...createOrderChecks(session), ...createGoodsChecks(session)];

test('every check of verify names a section, and quotes its row of assumptions.md', () => {
  const headings = read('interface.md');
  const assumptions = read('assumptions.md').replaceAll(/\s+/g, ' ');
  for (const { id, section, assumption, quoted } of checks) {
    expect([id, headings.includes(`\n### ${section} `)]).toEqual([id, true]);
    if (quoted) expect([id, assumptions.includes(assumption)]).toEqual([id, true]);
  }
  expect(checks.filter(({ quoted }) => quoted).length).toBeGreaterThan(10);
  const ids = checks.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
});

test('likely routes use only the methods that change nothing', () => {
  const route = { method: 'GET', path: '/v2/shipment/tracktrace' } as const;
  const routes = listAlternatives(route, ['GET']);
  expect(routes).toContainEqual({ method: 'GET', path: '/v2/shipments/track-trace' });
  expect(routes).not.toContainEqual(route);
  expect(routes.every(({ method }) => method === 'GET')).toBe(true);
});
