const unreleased = 'not released';

/**
 * Returns the changelog with the date of a version that was not released until now.
 * @param day YYYY-MM-DD
 * @throws Error if the newest section is of another version, has a date already, or is empty
 */
export function dateChangelog(changelog: string, version: string, day: string): string {
  const [heading = '', found, date] = /^## (\S+) - (.+)$/m.exec(changelog) ?? [];
  if (found !== version)
    throw new Error(`CHANGELOG.md begins with ${found ?? 'no version'}; package.json has ${version}`);
  if (date !== unreleased)
    throw new Error(`CHANGELOG.md says that ${version} was released: ${date}. Raise the version`);
  if (readSection(changelog, version) === '') throw new Error(`CHANGELOG.md says nothing about ${version}`);
  return changelog.replace(heading, `## ${version} - ${day}`);
}

/** Returns what the changelog says about a version, without its heading. */
export function readSection(changelog: string, version: string): string {
  const sections = changelog.split(/^(?=## )/m);
  const section = sections.find((text) => text.startsWith(`## ${version} - `)) ?? '';
  return section.split('\n').slice(1).join('\n').trim();
}
