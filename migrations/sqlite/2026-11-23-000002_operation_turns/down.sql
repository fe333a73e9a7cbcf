DROP INDEX operations_turns;
