import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

/** Path of the browser of this machine; undefined if there is none. */
export const browserPath = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
].find((path) => existsSync(path));

/**
 * Starts the browser of this machine.
 * @throws Error if there is none
 */
export function launchBrowser(): Promise<Browser> {
  // Chromium cannot use its sandbox as root, which CI may be. It shows only our pages. Without
  // colours at the edges of letters, pictures are smaller. The other arguments prevent requests to
  // its vendor.
  const args = [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-lcd-text',
  ];
  const silent = [
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ];
  return chromium.launch({
    executablePath: browserPath ?? '/usr/bin/chromium',
    args: [...args, ...silent],
  });
}
