DROP INDEX operations_by_age;
