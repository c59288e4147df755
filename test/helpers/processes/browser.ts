import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll } from 'vitest';
import { browserPath, launchBrowser } from './chromium.ts';

/** A browser of this machine, where there is one; pages are closed at the end of each test. */
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
    /** A page with cookies of its own, and what it complained of: script errors, and what the policy kept it from. */
    open: async (width: number, colorScheme: 'light' | 'dark' = 'light') => {
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
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
