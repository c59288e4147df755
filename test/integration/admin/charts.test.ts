import { describe, expect, test } from 'vitest';
import { useAdmin } from '../../helpers/admin.ts';
import { useDatabase } from '../../helpers/database.ts';

const database = useDatabase();
const admin = useAdmin(database);

/** Stores figures of a day and a month, for all clients together and for one. */
const store = () =>
  database.query(`
    insert into sync.figures (client, minutes, at, measure, part, value)
    select client, minutes, date_bin(make_interval(mins => minutes), now(), 'epoch') - n * make_interval(mins => minutes),
      measure, part, (case when client = '' then 100 else 7 end) * minutes
    from unnest(array['', 'default']) client, (values (5, 288), (60, 720)) spans (minutes, spans),
      generate_series(0, spans - 1) n,
      (values ('rows', 'orders'), ('rows', 'shipments'), ('pushes', 'done'), ('pushes', 'dead'), ('waits', '39'),
        ('oldest_pending', ''), ('stream_age', 'orders')) measures (measure, part)`);

describe('the charts', () => {
  test('of a day and of a month are on the overview, each with words and numbers instead of the picture', async () => {
    await store();
    const page = await (await (await admin()).visitor.get('/')).text();
    expect(page.match(/<svg role="img"/g)).toHaveLength(10);
    for (const chart of [
      'Rows written, by stream',
      'Pushes per minute, by outcome',
      'Time from insert to done',
      'Age of the oldest pending row',
      'Time since the last complete poll',
    ])
      expect(
        page.match(new RegExp(`<title[^>]*>${chart}</title><desc[^>]*>${chart}, the last 24 hours`)),
      ).not.toBeNull();
    // Three full spans of 5 minutes with 500 rows of each of two streams.
    expect(page).toContain('Rows written, by stream, the last 24 hours. Highest: 3000. ');
    expect(page).toContain('<summary>The last 30 days in numbers</summary>');
    expect(page).not.toMatch(/<svg[^>]* style=|<path[^>]* style=/);
    expect(page.length).toBeLessThan(250_000);
  });

  test('of one client are on a page of their own', async () => {
    await store();
    const { visitor } = await admin();
    const page = await (await visitor.get('/charts?client=default')).text();
    expect(page).toContain('Rows written, by stream, the last 24 hours. Highest: 210. ');
    expect(await (await visitor.get('/charts?client=')).text()).toContain('Highest: 3000. ');
    expect(await (await visitor.get('/charts?client=%3Cb%3E')).text()).not.toContain('<b>"');
  });

  test('are drawn without any figures, too', async () => {
    const page = await (await (await admin()).visitor.get('/')).text();
    expect(page).toContain('Rows written, by stream, the last 24 hours. Highest: 0. ');
    expect(page).not.toMatch(/NaN|Infinity|undefined/);
  });
});
