import { expect, test } from 'vitest';
import { readConfig } from '../../../config/env.ts';
import { checkConfiguration } from '../../../src/operate/doctor/checks.ts';

test('doctor names the clients of a subscriber that are not served', () => {
  const config = readConfig({ database: false, clients: false }, {});
  const subscriber = { name: 'shop', url: 'https://shop.example/', secret: 'x', types: null };
  const subscribers = [{ ...subscriber, clients: ['nobody'], personalData: false }];

  expect(checkConfiguration({ ...config, subscribers }, undefined)).toContainEqual(
    expect.objectContaining({
      state: 'warn',
      found: 'shop wants events of nobody, which this worker does not serve',
    }),
  );
});
