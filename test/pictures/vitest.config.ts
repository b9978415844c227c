// Takes the pictures of the documentation anew: `npm run pictures`, and no test.
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: { include: ['test/pictures/*.pictures.ts'], testTimeout: 240_000, hookTimeout: 120_000 },
});
