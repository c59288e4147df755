import { describe, expect, test } from 'vitest';
import { orderBody, useClient } from '../helpers/client.ts';
import { useBrowser } from '../helpers/processes/browser.ts';
import { quiet, useSandbox } from '../helpers/sandbox.ts';

const sandbox = useSandbox(['default', 'other'], { ...quiet, strict: false });
const client = useClient(sandbox);
const browser = useBrowser();

describe.skipIf(!browser.available)('the page of the sandbox in a browser', () => {
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
