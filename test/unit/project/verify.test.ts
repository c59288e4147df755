import { expect, test } from 'vitest';
import { listAlternatives } from '../../../src/cli/verify/route-checks.ts';

test('likely routes use only the methods that change nothing', () => {
  const route = { method: 'GET', path: '/v2/shipment/tracktrace' } as const;
  const routes = listAlternatives(route, ['GET']);
  expect(routes).toContainEqual({ method: 'GET', path: '/v2/shipments/track-trace' });
  expect(routes).not.toContainEqual(route);
  expect(routes.every(({ method }) => method === 'GET')).toBe(true);
});
