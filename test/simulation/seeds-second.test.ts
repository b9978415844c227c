// The second half of the fixed seeds: every promise holds in every schedule.
import { test } from 'vitest';
import { expectSeedsToHold } from './seeds.ts';

test('every promise holds in the second 250 schedules', () => expectSeedsToHold(1), 600_000);
