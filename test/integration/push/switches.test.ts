import { describe, expect, test } from 'vitest';
import { migrateDatabase } from '../../../src/cli/commands/migrate.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { withSwitches, writeSwitches } from '../../helpers/config/operations-file.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { usePushes } from '../../helpers/pusher.ts';

const { database, outbox } = usePushes();

const push = (switches: Parameters<typeof writeSwitches>[0]) =>
  outbox.push({ WAREHOUSE_OPERATIONS_FILE: writeSwitches(switches), HTTP_TIMEOUT_MS: '300' });

describe('members that WAREHOUSE_OPERATIONS_FILE makes optional', () => {
  const optional = ['locale', 'deliveryAddress.lastName'];
  const { lastName: _, ...deliveryAddress } = orderPayload('SO-1').deliveryAddress;
  const payload = orderPayload('SO-1', { locale: undefined, deliveryAddress });

  test('may be missing in an order, which the service takes', async () => {
    const id = await outbox.insert('order.create', 'SO-1', payload);
    await push({ 'v3.orders.create': { optional } });
    await outbox.expectRow(id, {
      status: 'done',
      result: { orderId: expect.any(Number) },
    });
  });

  test('are optional in the schema that SQL returns, after migrate with that file', async () => {
    const readRequired = async () => {
      const [row] = await database.query<{ order: string[]; address: string[] }>(`
        select s.schema -> 'required' as order,
          s.schema #> '{properties,deliveryAddress,required}' as address
        from fulfilment.outbox_schema('order.create') as s (schema)`);
      return [...(row?.order ?? []), ...(row?.address ?? [])].filter((name) =>
        ['locale', 'lastName'].includes(name),
      );
    };
    expect(await readRequired()).toEqual(['locale', 'lastName']);
    await migrateDatabase(
      database.url,
      silentLogger,
      undefined,
      withSwitches({ 'v3.orders.create': { optional } }),
    );
    expect(await readRequired()).toEqual([]);
    await migrateDatabase(database.url, silentLogger);
    expect(await readRequired()).toEqual(['locale', 'lastName']);
  });
});

test('the attributes that cancel an order item are those of the switch', async () => {
  await outbox.insertOrder('SO-1');
  const refused = await outbox.insert('order_item.cancel', 'SO-1', { sku: 'MUG-BLUE' });
  await push({ 'v3.orderItems.cancel': { attributes: { cancelled: true } } });
  await outbox.expectRow(refused, { status: 'dead' });
  await outbox.cancel(refused);
  const taken = await outbox.insert('order_item.cancel', 'SO-1', { sku: 'MUG-BLUE' });
  await push({ 'v3.orderItems.cancel': { attributes: { quantity: 0, cancelled: true } } });
  await outbox.expectRow(taken, {
    status: 'done',
    result: { modified: true, quantity: 0 },
  });
});
