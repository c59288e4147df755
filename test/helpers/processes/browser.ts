import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll } from 'vitest';
import { browserPath, launchBrowser } from './chromium.ts';

/**
 * Starts the browser of this machine, if there is one. Its pages are closed at the end of each
 * test.
 */
export function useBrowser() {
  let browser: Browser;
  const pages: Page[] = [];
  beforeAll(async () => {
    if (browserPath !== undefined) browser = await launchBrowser();
  });
  afterEach(async () => {
    await Promise.all(pages.splice(0).map((page) => page.context().close()));
  });
  afterAll(async () => {
    await browser?.close();
  });
  return {
    available: browserPath !== undefined,
    /**
     * Opens a page with its own cookies. `complaints` holds script errors and violations of the
     * content policy.
     */
    open: async ({
      width,
      ...more
    }: { width: number } & Pick<BrowserContextOptions, 'colorScheme' | 'javaScriptEnabled'>) => {
      const context = await browser.newContext({ viewport: { width, height: 900 }, ...more });
      const page = await context.newPage();
      pages.push(page);
      const complaints: string[] = [];
      page.on('pageerror', (error) => complaints.push(error.message));
      page.on('console', (message) => {
        if (message.type() === 'error') complaints.push(message.text());
      });
      return { page, complaints };
    },
  };
}
