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

test.each([
  ['redis_mode:cluster\r\nrole:master', /Redis Cluster/],
  ['redis_mode:standalone\r\nrole:slave', /a replica/],
  ['redis_mode:sentinel', /a Sentinel/],
])('a server with %j is named, with what to use', (lines, words) => {
  const problem = findRedisProblem(`redis_version:7.2.4\r\n${lines}\r\n`);
  expect(problem?.code).toBe('redis_role');
  expect(problem?.message).toMatch(words);
  expect(problem?.remedy).toMatch(/^set REDIS_URL/);
});

test('a single primary is accepted', () => {
  const text = `${info('7.2.4', 'noeviction')}redis_mode:standalone\r\nrole:master\r\n`;
  expect(findRedisProblem(text)).toBeNull();
});
