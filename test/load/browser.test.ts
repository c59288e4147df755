import { AxeBuilder } from '@axe-core/playwright';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { orderBody, useClient } from '../helpers/client.ts';
import { useBrowser } from '../helpers/processes/browser.ts';
import { quiet, useSandbox } from '../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], { ...quiet, strict: false });
const client = useClient(sandbox);
const browser = useBrowser();

/**
 * Checks the accessibility of a page. The page has no frames, so the faster legacy mode of axe is
 * enough.
 */
const findViolations = async (page: Page) =>
  (await new AxeBuilder({ page }).setLegacyMode().analyze()).violations.map(
    ({ id, nodes }) => `${id}: ${nodes[0]?.html}`,
  );

describe.skipIf(!browser.available)('the page of the sandbox in a browser', () => {
  test('is accessible and fits the screen, narrow or wide, in light and in dark colours', async () => {
    const body = orderBody('WEB-1', { attributes: { colour: 'red' } });
    await client.ask('v3.orders.create', { body });
    const long = 'x'.repeat(300);
    await client.fetch('GET', `/v3/${long}?${long}=${long}`);
    await sandbox.call('POST', '/_sandbox/order', {
      ...{ client: 'default', externalOrderNumber: 'x'.repeat(50), onHold: true },
    });
    await sandbox.faults({ operation: 'v3.*', effect: { status: 302, location: long } });
    for (const [width, colorScheme] of [
      [390, 'light'],
      [1_280, 'dark'],
    ] as const) {
      const { page, complaints } = await browser.open({ width, colorScheme });
      await page.goto(sandbox.url.href);
      const beyond = await page.evaluate(
        'document.documentElement.scrollWidth - document.documentElement.clientWidth',
      );
      expect([width, beyond, await findViolations(page)]).toEqual([width, 0, []]);
      expect(complaints).toEqual([]);
    }
  });

  test('shows requests as they come, and acts', async () => {
    const { page, complaints } = await browser.open({ width: 1_600 });
    await page.goto(sandbox.url.href);
    await client.ask('v3.orders.create', { body: orderBody('WEB-1') });
    await page.getByRole('link', { name: 'POST /v3/orders' }).waitFor();
    await page
      .getByRole('row', { name: /^WEB-1 / })
      .getByRole('button', { name: 'Ship' })
      .click();
    await page.getByRole('row', { name: /^WEB-1 .*shipped/ }).waitFor();

    await sandbox.call('POST', '/_sandbox/order', {
      client: 'default',
      externalOrderNumber: 'WEB-2',
      onHold: true,
    });
    const held = page.getByRole('row', { name: /^WEB-2 .*on hold/ });
    await held.getByRole('button', { name: 'Ship' }).click();
    await page.getByText('Order WEB-2 cannot be shipped: it is on hold').waitFor();
    // The browser reports the refused call itself.
    expect(complaints.filter((text) => !text.includes('status of 422'))).toEqual([]);
  });
});
