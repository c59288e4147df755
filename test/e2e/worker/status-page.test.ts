import { AxeBuilder } from '@axe-core/playwright';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { useDatabase } from '../../helpers/database.ts';
import { orderPayload } from '../../helpers/order-payload.ts';
import { useBrowser } from '../../helpers/processes/browser.ts';
import { useProcesses, workerEnv } from '../../helpers/processes/processes.ts';
import { insertHealth } from '../../helpers/service-health.ts';
import { waitFor } from '../../helpers/wait.ts';

const database = useDatabase();
const processes = useProcesses();
const browser = useBrowser();
const token = 'a-token-that-is-long-enough-to-be-taken';

/**
 * Starts a worker with three days of data, a dead row in the outbox, and a resource in quarantine.
 */
async function startWorker() {
  const sandbox = await processes.sandbox();
  await sandbox.advance(3 * 86_400);
  const worker = processes.cli(
    ['worker'],
    workerEnv(database.url, sandbox, { ADMIN_TOKEN: token }),
  );
  const { port } = JSON.parse(await worker.line('admin_listening')) as { port: number };
  const bad = orderPayload('SO-DEAD', { orderType: 'NONE' });
  await database.query(
    `insert into fulfilment.outbox (kind, reference, payload) values ('order.create', 'SO-DEAD', $1), ('order.cancel', 'SO-DEAD', '{}')`,
    [JSON.stringify(bad)],
  );
  await waitFor('a dead row', async () => (await statuses()).includes('dead'));
  await waitFor(
    'the first load',
    async () => (await database.query('select 1 from fulfilment.shipments')).length > 0,
  );
  await database.query(
    `insert into sync.quarantine (client, stream, resource_key, member_path, reason, document, run_worker) values ('default', 'orders', '1', 'attributes.price', 'must be a number', '{}', 'w')`,
  );
  return { sandbox, base: `http://127.0.0.1:${port}` };
}

/** Makes a problem with a long text, and with another one that follows from it. */
async function refuseCredentials() {
  // A run that is done ends the hold.
  const running = `select 1 from sync.jobs where client = 'default' and stream is not null and last_success_at is null`;
  await waitFor('the first runs', async () => (await database.query(running)).length === 0);
  await insertHealth(database, {
    ...{ code: 'credentials_refused', sendWindow: 0, untilInMs: 3_600_000 },
  });
  await database.query(`
    update sync.jobs set skips = 1, last_skip_at = now() + interval '1 hour', last_skip_reason = 'x'
    where job = 'pull-inbounds'`);
}

const statuses = async () =>
  (
    await database.query<{ status: string }>('select status from fulfilment.outbox order by id')
  ).map(({ status }) => status);

async function logIn(page: Page, base: string, path = '/'): Promise<void> {
  await page.goto(base + path);
  await page.getByLabel('ADMIN_TOKEN').fill(token);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.waitForURL(base + path);
}

/**
 * Checks the accessibility of a page. The pages have no frames, so the faster legacy mode of axe is
 * enough.
 */
const check = (page: Page) => new AxeBuilder({ page }).setLegacyMode().analyze();

/** JavaScript: the words of up to 30 characters, outside of code, that the layout breaks inside. */
const findBrokenWords = `(() => {
  const broken = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (text.parentElement.closest('pre, code, textarea, script')) continue;
    for (const { 0: word, index } of text.data.matchAll(/[A-Za-z0-9_.@]{2,30}/g)) {
      const range = document.createRange();
      range.setStart(text, index);
      range.setEnd(text, index + word.length);
      const lines = [...range.getClientRects()].filter(({ width }) => width > 0).map(({ top }) => Math.round(top));
      if (new Set(lines).size > 1) broken.push(word);
    }
  }
  return broken;
})()`;

/** JavaScript: the badges that are narrower than their text and its margins. */
const findClippedBadges = `[...document.querySelectorAll('.badge')].filter((badge) => {
  const range = document.createRange();
  range.selectNodeContents(badge);
  const { paddingLeft, paddingRight } = getComputedStyle(badge);
  const needed = range.getBoundingClientRect().width + parseFloat(paddingLeft) + parseFloat(paddingRight);
  return needed > badge.getBoundingClientRect().width + 1;
}).map((badge) => badge.textContent)`;

const paths = [
  ...['/', '/charts', '/orders?q=none', '/order?client=default&number=SO-DEAD'],
  ...['/outbox', '/outbox/1', '/runs', '/schedules', '/quarantine', '/audit', '/database'],
];

describe.skipIf(!browser.available)('the status page in a browser', () => {
  test('is accessible and fits, narrow or wide, in light and in dark colours', async () => {
    const { base } = await startWorker();
    await refuseCredentials();
    // So that /database asks what it is.
    await database.query("update sync.push_database set mark = '1/2/3/4'");
    // All pages have the same style sheet.
    for (const [width, scheme, shown] of [
      [360, 'light', paths],
      [1_280, 'dark', ['/', '/charts', '/outbox/1', '/schedules']],
    ] as const) {
      const { page, complaints } = await browser.open({ width, colorScheme: scheme });
      await page.goto(`${base}/login`);
      const login = await check(page);
      expect([width, scheme, 'login', login.violations.map(({ id }) => id)]).toEqual([
        width,
        scheme,
        'login',
        [],
      ]);
      await logIn(page, base);
      await page.getByText('has refused the user name').waitFor();
      for (const path of shown) {
        await page.goto(base + path);
        await page.evaluate(
          `document.querySelectorAll('details').forEach((details) => { details.open = true; })`,
        );
        const { violations } = await check(page);
        const found = {
          violations: violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`),
          beyond: await page.evaluate<number>(
            'document.documentElement.scrollWidth - document.documentElement.clientWidth',
          ),
          brokenWords: await page.evaluate(findBrokenWords),
          clippedBadges: await page.evaluate(findClippedBadges),
        };
        const nothing = { violations: [], beyond: 0, brokenWords: [], clippedBadges: [] };
        expect({ width, scheme, path, ...found }).toEqual({ width, scheme, path, ...nothing });
      }
      expect(complaints).toEqual([]);
    }
  });

  test('updates itself, keeps the focus and what is open, and shows the queues', async () => {
    const { base, sandbox } = await startWorker();
    const { page } = await browser.open({ width: 900 });
    await logIn(page, base);
    await page.getByRole('heading', { name: '1 problem' }).waitFor();
    await refuseCredentials();
    await page.locator('summary').click();
    const link = page.getByRole('link', { name: '1 dead' });
    await link.focus();
    await sandbox.advance(3_600);
    await database.query(`insert into fulfilment.outbox (kind, reference) values ('made.up', 'X')`);
    await page.getByRole('link', { name: '2 dead' }).waitFor();
    expect(await page.evaluate('document.activeElement.textContent')).toBe('2 dead');
    await page.getByText('2 rows are dead').waitFor();
    expect(await page.evaluate('document.querySelector("details").open')).toBe(true);

    await page.goto(`${base}/queues`);
    await page.getByRole('link', { name: 'pull-shipments' }).click();
    await page.waitForURL(`${base}/runs?job=pull-shipments`);
  });

  test('lets an operator replace the payload of a dead row with the keyboard alone', async () => {
    const { base } = await startWorker();
    const { page, complaints } = await browser.open({ width: 900 });
    await logIn(page, base, '/outbox?status=dead');
    await page.keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to content');
    await page.getByRole('link', { name: '1', exact: true }).focus();
    await page.keyboard.press('Enter');
    await page.waitForURL(`${base}/outbox/1`);
    await page.getByText('there is no code NONE (known codes').first().waitFor();
    expect(await page.content()).not.toContain('anna@example.com');
    await page.getByRole('button', { name: 'Show unmasked' }).focus();
    await page.keyboard.press('Enter');
    const payload = page.getByLabel('New payload (JSON)');
    await payload.waitFor();
    const text = (await payload.inputValue()).replace('"NONE"', '"B2C"');
    expect(text).toContain('anna@example.com');
    await payload.focus();
    await page.keyboard.press('ControlOrMeta+a');
    await page.keyboard.insertText(text);
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.getByText('The payload is replaced, and the service has carried it out.').waitFor();
    await waitFor('both rows to be done', async () =>
      (await statuses()).every((status) => status === 'done'),
    );
    await page.goto(`${base}/audit`);
    await page.getByText('outbox replace').waitFor();
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.waitForURL(`${base}/login`);
    expect(complaints).toEqual([]);
  });
});
