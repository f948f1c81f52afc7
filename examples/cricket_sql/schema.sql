CREATE TABLE top_batsmen (
  player_name TEXT PRIMARY KEY,
  country_name TEXT,
  odi_runs INTEGER,
  t20_runs INTEGER,
  test_runs INTEGER,
  odi_debut_year INTEGER
);
CREATE TABLE matches (
  match_id INTEGER PRIMARY KEY,
  year INTEGER,
  format TEXT, -- 'ODI', 'T20' or 'Test'
  home TEXT, -- a country
  away TEXT, -- a country
  winner TEXT, -- a country, or NULL
  top_scorer TEXT REFERENCES top_batsmen (player_name),
  top_score INTEGER
);
