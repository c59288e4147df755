/** Names of members and parameters whose values are secret, such as `password` and `access_token`. */
const secretName = String.raw`[\w.%[\]-]{0,40}(?:password|passwd|secret|token|authorization|api_?key)[\w.%[\]-]{0,40}`;
const inJson = new RegExp(String.raw`("${secretName}"\s*:\s*)(?:"(?:[^"\\]|\\.)*"?|[^\s,}\]"{[]+)`, 'gi');
const inForm = new RegExp(String.raw`((?:^|[&?;\s])${secretName}=)[^&\s]*`, 'gi');
const inHeader = /(\bbearer\s+)[\w.~+/-]+=*/gi;

/** What a reader sees instead of a secret. */
const hidden = '***';

/**
 * Replaces the secrets in a query, a body or an answer. The log and the page show nothing that was not treated so.
 * @param mark stands for each secret
 */
export function hideSecrets(text: string, mark = hidden): string {
  return text
    .replace(inJson, (_, start: string) => `${start}"${mark}"`)
    .replace(inForm, (_, start: string) => start + mark)
    .replace(inHeader, (_, start: string) => start + mark);
}
