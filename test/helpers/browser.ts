import { existsSync } from 'node:fs';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll } from 'vitest';

const executablePath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);

/** A browser of this machine, where there is one; pages are closed at the end of each test. */
export function useBrowser() {
  let browser: Browser;
  const pages: Page[] = [];
  beforeAll(async () => {
    if (executablePath === undefined) return;
    // As root, which CI may be, Chromium has no sandbox; it shows our own pages only. The rest keeps it from calling home.
    const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'];
    const silent = ['--disable-background-networking', '--disable-component-update', '--disable-sync'];
    browser = await chromium.launch({ executablePath, args: [...args, ...silent] });
  });
  afterEach(async () => {
    await Promise.all(pages.splice(0).map((page) => page.context().close()));
  });
  afterAll(async () => {
    await browser?.close();
  });
  return {
    available: executablePath !== undefined,
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
