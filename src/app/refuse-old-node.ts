/** The oldest Node that the dependencies work with; package.json says the same. */
const oldestNode = 24;

/**
 * Says on standard error what to do if this Node is too old, and makes 2 (wrong configuration) the exit code.
 * The syntax here must be readable for old versions of Node.
 * @param version of Node, x.y.z
 * @returns whether the program may start
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
