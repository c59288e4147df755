import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach } from 'vitest';

/** A folder with files of a configuration. */
export class ConfigFolder {
  readonly path = mkdtempSync(join(tmpdir(), 'fulfilment-sync-config-'));

  file(name: string): string {
    return join(this.path, name);
  }

  /** Moves a new file into its place, as editors and programs do. */
  replace(name: string, content: string): void {
    const next = this.file(`${name}.next`);
    writeFileSync(next, content);
    renameSync(next, this.file(name));
  }

  /** Writes the file of --env-file. */
  env(values: Readonly<Record<string, string>>): void {
    const lines = Object.entries(values).map(([name, value]) => `${name}=${value}\n`);
    this.replace('worker.env', lines.join(''));
  }

  /**
   * Writes the file of clients, and a file with the password of each. In the sandbox, the password
   * is the key.
   */
  clients(baseUrl: URL, ...keys: readonly string[]): void {
    const clients = keys.map((key) => ({
      key,
      baseUrl: baseUrl.href,
      username: key,
      passwordFile: this.file(`password-${key}`),
    }));
    for (const key of keys) this.replace(`password-${key}`, key);
    this.replace('clients.json', JSON.stringify(clients));
  }
}

/** Makes folders for files of a configuration. They are removed after each test. */
export function useConfigFolders(): () => ConfigFolder {
  const folders: ConfigFolder[] = [];
  afterEach(() => {
    for (const { path } of folders.splice(0)) rmSync(path, { recursive: true });
  });
  return () => {
    const folder = new ConfigFolder();
    folders.push(folder);
    return folder;
  };
}
