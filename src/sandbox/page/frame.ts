/**
 * The page of the sandbox. Every part of it is rendered here as HTML, so that it also works without its script. The
 * script loads the changed parts once a second.
 */

import { type Child, html } from '../../core/html.ts';

/** Renders a whole page around its content. */
export function renderFrame(title: string, header: Child, body: Child): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/_sandbox/page.css">
<script src="/_sandbox/page.js" defer></script>
</head>
<body class="sandbox">
<a class="skip" href="#main">Skip to content</a>
<header><a class="name" href="/">Sandbox</a>${header}</header>
<main id="main" tabindex="-1">
${body}
</main>
</body>
</html>
`.text;
}
