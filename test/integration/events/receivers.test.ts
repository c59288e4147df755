import { afterEach, expect, test } from 'vitest';
import { readConfig } from '../../../config/env.ts';
import { openDispatcher } from '../../../src/app/deps/dispatcher.ts';
import { postWebhook } from '../../../src/app/webhooks/post-webhook.ts';
import { useServices } from '../../helpers/processes/service.ts';

const services = useServices();
const dispatcher = openDispatcher(readConfig({ database: false, clients: false }, {}), 10_000);
afterEach(() => dispatcher.destroy());

test('a receiver that does not answer in time is recorded as timeout, and a stop as stopped', async () => {
  const { url } = await services.start(() => undefined);
  const receiver = { url: url.href, secret: undefined, dispatcher, timeoutMs: 200 };
  const { signal } = new AbortController();
  expect(await postWebhook(receiver, 'id', '{}', signal)).toEqual({
    delivered: false,
    code: 'timeout',
    error: 'the receiver did not answer within 200 ms',
  });
  const stopped = await postWebhook({ ...receiver, timeoutMs: 60_000 }, 'id', '{}', AbortSignal.abort());
  expect(stopped).toMatchObject({ delivered: false, code: 'stopped' });
});
