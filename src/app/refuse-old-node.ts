/** The oldest major version of Node that the dependencies support. package.json names the same version. */
const oldestNode = 24;

/**
 * Checks the version of Node. If it is too old, writes to standard error what to do, and sets the exit code 2 (wrong
 * configuration).
 */
export function refuseOldNode(version: string): boolean {
  if (Number(version.split('.')[0]) >= oldestNode) return true;
  process.stderr.write(
    `fulfilment-sync needs Node ${oldestNode} or newer; this is Node ${version} (${process.execPath}).\n` +
      `Install Node ${oldestNode} (https://nodejs.org/en/download, or: nvm install ${oldestNode}) and run the command again.\n`,
  );
  process.exitCode = 2;
  return false;
}
