import { expect, test } from 'vitest';
import { findRedisProblem } from '../../../src/schedule/backend.ts';

const info = (version: string, policy: string) =>
  `# Server\r\nredis_version:${version}\r\nos:Linux\r\n# Memory\r\nmaxmemory_policy:${policy}\r\n`;

test.each([
  ['6.0.20', 'noeviction', 'redis_too_old'],
  ['6.2.0', 'noeviction', undefined],
  ['10.0.1', 'noeviction', undefined],
  ['7.2.4', 'allkeys-lru', 'redis_evicts'],
])('Redis %s with %s: %s', (version, policy, code) => {
  expect(findRedisProblem(info(version, policy))?.code).toBe(code);
});
