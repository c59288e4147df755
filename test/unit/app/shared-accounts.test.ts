import { expect, test } from 'vitest';
import { findSharedAccounts } from '../../../src/app/deps/shared-accounts.ts';

const client = (key: string, baseUrl: string, username = 'shop') => ({
  key,
  baseUrl: new URL(baseUrl),
  username,
  password: 'x',
  timeZone: 'UTC',
});

test('two names of one host with the same user name may be one account', async () => {
  const clients = [
    client('a', 'http://127.0.0.1:8090/api/'),
    client('b', 'http://localhost:8090/API'),
    client('other-user', 'http://127.0.0.1:8090/api', 'another'),
    client('other-port', 'http://127.0.0.1:8091/api'),
    client('other-path', 'http://127.0.0.1:8090/'),
    client('unknown', 'http://nowhere.invalid:8090/api'),
    client('unknown-too', 'http://nowhere.invalid:8090/api'),
  ];
  expect(await findSharedAccounts(clients)).toEqual([['a', 'b']]);
});
