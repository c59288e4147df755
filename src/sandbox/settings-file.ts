import { z } from 'zod';
import { DocumentError, readDocument } from './document.ts';
import { settingsSchema } from './store/settings.ts';

/** A settings file: lists for all clients, and lists of single clients in `clients`. */
export const chosenSettingsSchema = settingsSchema.extend({
  clients: z.record(z.string(), settingsSchema).optional(),
});
export type ChosenSettings = z.infer<typeof chosenSettingsSchema>;

/**
 * Reads a settings file.
 * @param clients the clients of the sandbox
 * @throws DocumentError if the file is wrong, or if it names another client
 */
export function readSettingsFile(file: string, clients: readonly string[]): ChosenSettings {
  const settings = readDocument(file, chosenSettingsSchema);
  for (const name of Object.keys(settings.clients ?? {}))
    if (!clients.includes(name))
      throw new DocumentError(file, [`clients.${name}: the sandbox has only the clients ${clients.join(', ')}`]);
  return settings;
}
