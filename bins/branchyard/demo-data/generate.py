#!/usr/bin/env python3
"""Writes the demo's three tables from Unicode CLDR.

    npm pack cldr-core@48.2.0 cldr-localenames-full@48.2.0 cldr-numbers-full@48.2.0
    # unpack each archive into a folder of its own, then
    python3 generate.py CORE LOCALENAMES NUMBERS [OUT]

Standard library only. The same packages always give the same bytes. What is chosen and why is in SOURCES.md.
"""

import csv
import json
import pathlib
import shutil
import sys

# A currency counts as a country's when it is legal tender on this day.
AS_OF = "2026-06-01"

# Numeric codes from here up are for private use: no country of ISO 3166-1 has one.
FIRST_PRIVATE_NUMERIC = 900


def load(folder, path, *keys):
    with open(pathlib.Path(folder) / path, encoding="utf-8") as file:
        value = json.load(file)
    for key in keys:
        value = value[key]
    return value


def tender(entries):
    """The currencies that are legal tender on AS_OF, in the source's order of preference."""
    found = []
    for entry in entries:
        for code, use in entry.items():
            begun = use.get("_from", "0000") <= AS_OF
            ended = use.get("_to", "9999") < AS_OF
            if begun and not ended and use.get("_tender") != "false":
                found.append(code)
    return found


def own_or_first(country, currencies):
    """Where several are tender, the country's own one (ISO 4217 codes begin with the country), else the preferred one."""
    own = [code for code in currencies if code.startswith(country)]
    return (own or currencies or [""])[0]


def write(out, name, header, rows):
    with open(out / name, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(sorted(rows))


def main(core, localenames, numbers, out):
    supplemental = ["supplemental"]
    territories = load(core, "supplemental/territoryInfo.json", *supplemental, "territoryInfo")
    mappings = load(core, "supplemental/codeMappings.json", *supplemental, "codeMappings")
    money = load(core, "supplemental/currencyData.json", *supplemental, "currencyData")
    english = ["main", "en", "localeDisplayNames"]
    territory_names = load(localenames, "main/en/territories.json", *english, "territories")
    language_names = load(localenames, "main/en/languages.json", *english, "languages")
    currency_names = load(numbers, "main/en/currencies.json", "main", "en", "numbers", "currencies")

    countries, used, spoken = [], set(), []
    for code, info in territories.items():
        codes = mappings.get(code, {})
        numeric = codes.get("_numeric", "")
        if "_alpha3" not in codes or not numeric or int(numeric) >= FIRST_PRIVATE_NUMERIC:
            continue
        current = tender(money["region"].get(code, []))
        used.update(current)
        countries.append((
            code,
            codes["_alpha3"],
            numeric,
            territory_names[code],
            info["_population"],
            info["_gdp"],
            own_or_first(code, current),
        ))
        for language, share in info.get("languagePopulation", {}).items():
            # `_` marks one way of writing a language that has a row of its own; `und` is "unknown language".
            if "_" in language or language == "und" or language not in language_names:
                continue
            spoken.append((
                code,
                language,
                language_names[language],
                share["_populationPercent"],
                share.get("_officialStatus", ""),
            ))

    default_digits = money["fractions"]["DEFAULT"]["_digits"]
    currencies = [
        (
            code,
            currency_names[code]["displayName"],
            currency_names[code].get("symbol-alt-narrow") or currency_names[code]["symbol"],
            money["fractions"].get(code, {}).get("_digits", default_digits),
        )
        for code in used
    ]

    # The three tables relate: no dangling reference, no key twice.
    known_countries = {row[0] for row in countries}
    assert len(known_countries) == len(countries)
    assert all(row[6] == "" or row[6] in used for row in countries)
    assert all(row[0] in known_countries for row in spoken)
    assert len({row[:2] for row in spoken}) == len(spoken)

    write(out, "countries.csv", ("code", "alpha3", "numeric", "name", "population", "gdp", "currency"), countries)
    write(out, "currencies.csv", ("code", "name", "symbol", "digits"), currencies)
    write(
        out,
        "languages_spoken.csv",
        ("country", "language", "language_name", "population_percent", "official_status"),
        spoken,
    )
    shutil.copyfile(pathlib.Path(core) / "LICENSE", out / "LICENSE-UNICODE")
    print(f"{len(countries)} countries, {len(currencies)} currencies, {len(spoken)} languages spoken")


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    here = pathlib.Path(__file__).resolve().parent
    main(*sys.argv[1:4], pathlib.Path(sys.argv[4]) if len(sys.argv) == 5 else here)
