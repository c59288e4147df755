import { describe, expect, test } from 'vitest';
import { pages } from '../../../../src/serve/admin/routes.ts';
import { useAdmin } from '../../../helpers/admin.ts';
import { useDatabase } from '../../../helpers/database.ts';
import { storePageRows } from '../../../helpers/page-rows.ts';

const database = useDatabase();
const admin = useAdmin(database);
const tokens = {
  ADMIN_TOKEN: 'an-operator-token-that-is-long-enough',
  ADMIN_VIEWER_TOKEN: 'v'.repeat(40),
};
const json = { accept: 'application/json' };

/** Addresses of all pages, with what their paths and queries need. */
const addresses = pages.map(({ path }) => {
  const query =
    path === '/order' ? '?client=default&number=SO-1' : path === '/orders' ? '?q=SO-1' : '';
  return `${path.replace('{id}', '1')}${query}`;
});

describe('every page as JSON', () => {
  test('is sent to who asks for it and may read it; a viewer gets no words of the service', async () => {
    await storePageRows(database, { words: 'careful', reference: 'SO-1' });
    await database.query(`
      update fulfilment.outbox
      set payload = '{"email": "jan@example.com"}', last_error = 'answered 422: «say "Jan"»' where id = 1`);
    const { visitor } = await admin(tokens);
    const operator = { authorization: `Bearer ${tokens.ADMIN_TOKEN}` };
    const viewer = { ...json, authorization: `Bearer ${tokens.ADMIN_VIEWER_TOKEN}` };
    for (const address of addresses) {
      expect([address, (await visitor.get(address, json)).status]).toEqual([address, 401]);
      const answer = await visitor.get(address, { ...operator, ...json });
      const { headers, status } = answer;
      expect([address, status, headers.get('content-type'), headers.get('vary')]).toEqual([
        ...[address, 200],
        ...[expect.stringContaining('application/json'), expect.stringContaining('accept')],
      ]);
      expect(await answer.json()).toBeTypeOf('object');
      const page = await visitor.get(address, operator);
      expect(String(page.headers.get('content-type'))).not.toContain('json');
      const shown = await (await visitor.get(address, viewer)).text();
      expect([address, /Jan/.test(shown)]).toEqual([address, false]);
      expect(JSON.parse(shown)).toBeTypeOf('object');
    }
    const rows = await visitor.get('/outbox', { ...operator, ...json });
    expect(await rows.text()).toContain('Jan');
  });
});
