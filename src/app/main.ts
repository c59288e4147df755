#!/usr/bin/env node
import { refuseOldNode } from './refuse-old-node.ts';

// Import everything else dynamically: an older Node would fail while it loads the dependencies.
if (refuseOldNode(process.versions.node)) {
  // Makes stack traces of the bundle name the lines of the TypeScript sources.
  process.setSourceMapsEnabled(true);
  const { runCli } = await import('./program/program.ts');
  await runCli();
}
