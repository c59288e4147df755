import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach } from 'vitest';

/** A folder with files of settings. */
export class SettingsFolder {
  readonly path = mkdtempSync(join(tmpdir(), 'fulfilment-sync-settings-'));
  #version = 0;

  file(name: string): string {
    return join(this.path, name);
  }

  /** Moves a new file into its place, as editors and programs do. */
  replace(name: string, content: string): void {
    const next = this.file(`${name}.next`);
    writeFileSync(next, content);
    renameSync(next, this.file(name));
  }

  /** Writes the settings of SETTINGS_FILE. */
  settings(values: Readonly<Record<string, string>>): void {
    const lines = Object.entries(values).map(([name, value]) => `${name}=${value}\n`);
    this.replace('settings.env', lines.join(''));
  }

  /** Writes the file of clients. The user name and the password are the key, as in the sandbox. */
  clients(baseUrl: URL, ...keys: readonly string[]): void {
    const clients = keys.map((key) => ({ key, baseUrl: baseUrl.href, username: key, password: key }));
    this.replace('clients.json', JSON.stringify(clients));
  }

  /** Writes files as Kubernetes does in a volume: each is a link into a folder that a second link leads to. */
  volume(files: Readonly<Record<string, string>>): void {
    const data = `..version-${this.#version++}`;
    mkdirSync(this.file(data));
    for (const [name, content] of Object.entries(files)) writeFileSync(join(this.file(data), name), content);
    symlinkSync(data, this.file('..data.next'));
    renameSync(this.file('..data.next'), this.file('..data'));
    if (this.#version > 1) return;
    for (const name of Object.keys(files)) symlinkSync(join('..data', name), this.file(name));
  }
}

/** Makes folders for files of settings. They are removed after each test. */
export function useSettingsFolders(): () => SettingsFolder {
  const folders: SettingsFolder[] = [];
  afterEach(() => {
    for (const { path } of folders.splice(0)) rmSync(path, { recursive: true });
  });
  return () => {
    const folder = new SettingsFolder();
    folders.push(folder);
    return folder;
  };
}
