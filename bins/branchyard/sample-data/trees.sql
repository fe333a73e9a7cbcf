-- The trees of a few parks: what "Load sample data" puts into an empty database. All of it is invented.
CREATE TABLE parks (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  hectares REAL NOT NULL CHECK (hectares > 0)
);
INSERT INTO parks VALUES
  (1, 'Harbor Garden', 4.5), (2, 'Mill Meadow', 12.25), (3, 'Observatory Hill', 8.0), (4, 'Station Square', 0.75);

CREATE TABLE species (
  code TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  latin_name TEXT NOT NULL,
  is_evergreen INTEGER NOT NULL CHECK (is_evergreen IN (0, 1))
);
INSERT INTO species VALUES
  ('birch', 'Silver birch', 'Betula pendula', 0),
  ('hazel', 'Hazel', 'Corylus avellana', 0),
  ('lime', 'Small-leaved lime', 'Tilia cordata', 0),
  ('oak', 'English oak', 'Quercus robur', 0),
  ('pine', 'Scots pine', 'Pinus sylvestris', 1),
  ('yew', 'Yew', 'Taxus baccata', 1);

CREATE TABLE trees (
  id INTEGER PRIMARY KEY,
  park INTEGER NOT NULL REFERENCES parks (id),
  species TEXT NOT NULL REFERENCES species (code),
  planted INTEGER NOT NULL,
  height_m REAL NOT NULL,
  health TEXT NOT NULL CHECK (health IN ('good', 'fair', 'poor')),
  note TEXT
);
CREATE INDEX trees_by_park ON trees (park);
CREATE INDEX trees_by_species ON trees (species);
INSERT INTO trees
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 120)
SELECT
  n,
  1 + n * 7 % 4,
  CASE n * 31 % 11 % 6 WHEN 0 THEN 'birch' WHEN 1 THEN 'hazel' WHEN 2 THEN 'lime' WHEN 3 THEN 'oak' WHEN 4 THEN 'pine' ELSE 'yew' END,
  1950 + n * 37 % 70,
  round(2.0 + n * 53 % 230 / 10.0, 1),
  CASE WHEN n % 17 = 0 THEN 'poor' WHEN n % 5 = 0 THEN 'fair' ELSE 'good' END,
  CASE WHEN n % 17 = 0 THEN 'Look at it again next spring.' WHEN n = 42 THEN 'Children climb it.' END
FROM numbers;

CREATE VIEW trees_by_health AS
SELECT parks.name AS park, health, count(*) AS trees, round(avg(height_m), 1) AS mean_height_m
FROM trees JOIN parks ON parks.id = trees.park
GROUP BY parks.name, health;

CREATE VIEW README AS SELECT '# Trees of our parks

Sample data, all of it invented: 120 trees of 6 species in 4 parks.

- Open **trees**: filter and sort it, then change a row.
- Follow a tree to its park: references between tables are links.
- Make a branch, change something there, and open a pull request: it shows which rows differ.
- Delete the tables, or the database, when you are done.' AS text;
