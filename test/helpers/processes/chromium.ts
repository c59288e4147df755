import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

/** The browser of this machine; undefined where there is none. */
export const browserPath = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) =>
  existsSync(path),
);

/** @throws Error where this machine has none */
export function launchBrowser(): Promise<Browser> {
  // As root, which CI may be, Chromium has no sandbox; it shows our own pages only. The rest keeps it from calling home.
  const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'];
  const silent = ['--disable-background-networking', '--disable-component-update', '--disable-sync'];
  return chromium.launch({ executablePath: browserPath ?? '/usr/bin/chromium', args: [...args, ...silent] });
}
