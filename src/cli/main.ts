#!/usr/bin/env -S MALLOC_ARENA_MAX=1 MALLOC_TRIM_THRESHOLD_=131072 node --max-semi-space-size=4 --
// An idle worker needs no more than this, as in the Docker image (npm run bench:idle-memory): 4 MB
// for the young generation of the heap, and one arena of malloc, which gives back what is free.

/**
 * The oldest major version of Node that the dependencies support. package.json names the same
 * version.
 */
const oldestNode = 24;

// Import everything dynamically: an older Node would fail while it loads the dependencies.
const { node: version } = process.versions;
if (Number(version.split('.')[0]) < oldestNode) {
  process.stderr.write(
    `fulfilment-sync needs Node ${oldestNode} or newer; ` +
      `this is Node ${version} (${process.execPath}).\n` +
      `Install Node ${oldestNode} (https://nodejs.org/en/download, or: nvm install ` +
      `${oldestNode}) and run the command again.\n`,
  );
  // Wrong configuration.
  process.exitCode = 2;
} else {
  // Makes stack traces of the bundle name the lines of the TypeScript sources.
  process.setSourceMapsEnabled(true);

  // A worker restarts on SIGHUP. While it loads, the signal must not end it.
  if (process.argv.includes('worker')) process.on('SIGHUP', () => undefined);

  const { outliveReaders } = await import('./command-line.ts');
  outliveReaders();

  const { runCli } = await import('./program.ts');
  await runCli();
}
