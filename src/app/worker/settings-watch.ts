import { stat } from 'node:fs/promises';

/**
 * Finds out whether files have changed. It looks at what a path leads to, so it notices a file that was written, one
 * that was moved into its place, and a symbolic link that leads elsewhere now, as in volumes of Kubernetes.
 */
export class SettingsWatch {
  #files: readonly string[] = [];
  #loaded = '';
  #last = '';

  /** Remembers the files as they are now. Call it before they are read. */
  async remember(files: readonly string[]): Promise<void> {
    this.#files = files;
    this.#loaded = await look(files);
    this.#last = this.#loaded;
  }

  /**
   * Returns true if the files differ from those that were remembered, and have not changed since the last call: the
   * writing is over.
   */
  async hasChanged(): Promise<boolean> {
    const now = await look(this.#files);
    const isQuiet = now === this.#last;
    this.#last = now;
    return isQuiet && now !== this.#loaded;
  }
}

async function look(files: readonly string[]): Promise<string> {
  return JSON.stringify(await Promise.all(files.map(lookAt)));
}

async function lookAt(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join(' ');
  } catch (error) {
    return error instanceof Error && 'code' in error ? String(error.code) : 'unreadable';
  }
}
