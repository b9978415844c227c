// The first half of the fixed seeds: every promise holds in every schedule.
import { test } from 'vitest';
import { expectSeedsToHold } from './seeds.ts';

test('every promise holds in the first 250 schedules', () => expectSeedsToHold(0), 600_000);
