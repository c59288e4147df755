import { expect, test } from 'vitest';
import { describeOperation, useClient } from '../../helpers/client.ts';
import { quiet, useSandbox } from '../../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], quiet);
const client = useClient(sandbox);

describeOperation('common.token', () => {
  const ask = (form: Record<string, string>) => client.ask('common.token', { form });

  test.each([
    [{ grant_type: 'password', username: 'default', password: 'wrong' }, 'invalid_grant'],
    [{ grant_type: 'password', username: 'stranger', password: 'stranger' }, 'invalid_grant'],
    [
      { grant_type: 'client_credentials', username: 'default', password: 'default' },
      'invalid_request',
    ],
    [{ grant_type: 'password', username: 'default' }, 'invalid_request'],
  ])('%j is refused: %s', async (form, error) => {
    const answer = await ask(form as Record<string, string>);
    expect([answer.status, (answer.body as unknown as { error: string }).error]).toEqual([
      400,
      error,
    ]);
  });

  test('answers a token that expires in real time', async () => {
    await sandbox.switches({ tokenSeconds: 1 });
    await client.logIn();
    expect((await client.ask('common.settings.get')).status).toBe(200);
    await expect
      .poll(async () => (await client.ask('common.settings.get')).status, { timeout: 120_000 })
      .toBe(401);
  });
});

describeOperation('common.status.get', () => {
  test('answers without a token', async () => {
    client.token = '';
    expect((await client.ask('common.status.get')).body).toMatchObject({
      messageCode: 'OK',
      result: null,
    });
  });
});

describeOperation('common.settings.get', () => {
  test('answers all eight lists, none of them empty', async () => {
    const { result } = (await client.ask('common.settings.get')).body;
    expect(Object.keys(result as object)).toEqual([
      'mainShippingMethods',
      'shippingMethods',
      'returnShippingMethods',
      'orderTypes',
      'returnReasons',
      'languages',
      'countries',
      'paymentMethods',
    ]);
    expect(Object.values(result as object).filter((list) => list.length === 0)).toEqual([]);
  });
});
