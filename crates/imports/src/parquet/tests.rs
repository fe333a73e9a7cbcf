//! Files written by the crate's own writer, read by the rules of the contract (v2 §5.7, §5.8).

use std::sync::Arc;

use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::format::{FileLimits, Format};
use crate::testing::{errors, int, read, read_bytes, text, with_limits};
use crate::value::CellValue;

enum Values {
    Bools(Vec<bool>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Floats(Vec<f32>),
    Doubles(Vec<f64>),
    Bytes(Vec<&'static [u8]>),
    Fixed(Vec<&'static [u8]>),
}

/// The values of a column in one row group, with their definition levels and repetition levels.
type Column = (Values, Vec<i16>, Vec<i16>);

fn required(values: Values) -> Column {
    (values, Vec::new(), Vec::new())
}

fn write(schema: &str, compression: Compression, columns: Vec<Column>) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = WriterProperties::builder().set_compression(compression).build();
    let mut file = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut file, schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for (values, definitions, repetitions) in columns {
        let mut column = group.next_column().unwrap().unwrap();
        let d = (!definitions.is_empty()).then_some(&definitions[..]);
        let r = (!repetitions.is_empty()).then_some(&repetitions[..]);
        let bytes = |all: Vec<&'static [u8]>| all.into_iter().map(ByteArray::from).collect::<Vec<_>>();
        match values {
            Values::Bools(v) => column.typed::<BoolType>().write_batch(&v, d, r),
            Values::Int32(v) => column.typed::<Int32Type>().write_batch(&v, d, r),
            Values::Int64(v) => column.typed::<Int64Type>().write_batch(&v, d, r),
            Values::Floats(v) => column.typed::<FloatType>().write_batch(&v, d, r),
            Values::Doubles(v) => column.typed::<DoubleType>().write_batch(&v, d, r),
            Values::Bytes(v) => column.typed::<ByteArrayType>().write_batch(&bytes(v), d, r),
            Values::Fixed(v) => {
                let v: Vec<_> = bytes(v).into_iter().map(Into::into).collect();
                column.typed::<FixedLenByteArrayType>().write_batch(&v, d, r)
            }
        }
        .unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    file
}

#[test]
fn every_type_has_its_value() {
    let cases: Vec<(&str, Column, &str, CellValue)> = vec![
        ("boolean", required(Values::Bools(vec![true])), "INTEGER", int(1)),
        ("int32", required(Values::Int32(vec![-5])), "INTEGER", int(-5)),
        ("int32 X (UINT_8)", required(Values::Int32(vec![200])), "INTEGER", int(200)),
        ("int32 X (UINT_32)", required(Values::Int32(vec![-1])), "INTEGER", int(4_294_967_295)),
        ("int64", required(Values::Int64(vec![i64::MIN])), "INTEGER", int(i64::MIN)),
        ("int64 X (UINT_64)", required(Values::Int64(vec![7])), "INTEGER", int(7)),
        ("int64 X (UINT_64)", required(Values::Int64(vec![-1])), "TEXT", text("18446744073709551615")),
        ("float", required(Values::Floats(vec![0.1])), "REAL", CellValue::Real(0.1)),
        ("double", required(Values::Doubles(vec![f64::INFINITY])), "REAL", CellValue::Real(f64::INFINITY)),
        ("double", required(Values::Doubles(vec![f64::NAN])), "TEXT", CellValue::Null),
        ("binary", required(Values::Bytes(vec![b"\x00\xff"])), "BLOB", CellValue::Blob(vec![0, 255])),
        ("binary X (UTF8)", required(Values::Bytes(vec!["é".as_bytes()])), "TEXT", text("é")),
        ("binary X (JSON)", required(Values::Bytes(vec![b"{}"])), "TEXT", text("{}")),
        ("int32 X (DECIMAL(5,2))", required(Values::Int32(vec![-12_345])), "TEXT", text("-123.45")),
        ("int64 X (DECIMAL(18,3))", required(Values::Int64(vec![5])), "TEXT", text("0.005")),
        ("fixed_len_byte_array(2) X (DECIMAL(4,1))", required(Values::Fixed(vec![b"\x01\x00"])), "TEXT", text("25.6")),
        ("fixed_len_byte_array(2)", required(Values::Fixed(vec![b"ab"])), "BLOB", CellValue::Blob(b"ab".to_vec())),
        ("int32 X (DATE)", required(Values::Int32(vec![20_700])), "TEXT", text("2026-09-04")),
        ("int32 X (TIME_MILLIS)", required(Values::Int32(vec![45_000_500])), "TEXT", text("12:30:00.5")),
        (
            "int64 X (TIMESTAMP(MILLIS,true))",
            required(Values::Int64(vec![1_788_525_000_250])),
            "TEXT",
            text("2026-09-04T12:30:00.25Z"),
        ),
        (
            "int64 X (TIMESTAMP(MICROS,false))",
            required(Values::Int64(vec![1_788_525_000_000_001])),
            "TEXT",
            text("2026-09-04T12:30:00.000001"),
        ),
        (
            "int64 X (TIMESTAMP(NANOS,false))",
            required(Values::Int64(vec![1_788_525_000_000_000_001])),
            "TEXT",
            text("2026-09-04T12:30:00.000000001"),
        ),
        ("int64 X (TIME(NANOS,false))", required(Values::Int64(vec![1])), "TEXT", text("00:00:00.000000001")),
    ];
    for (kind, column, declared, expected) in cases {
        let (physical, logical) = kind.split_once(" X ").map_or((kind, ""), |(physical, logical)| (physical, logical));
        let schema = format!("message m {{ required {physical} a {logical}; }}");
        let file = write(&schema, Compression::UNCOMPRESSED, vec![column]);
        let (columns, rows) = read_bytes(Format::Parquet, file).unwrap();
        assert_eq!((columns[0].1, &rows[0].1[0]), (declared, &expected), "{kind}");
    }
}

fn people(compression: Compression) -> Vec<u8> {
    let schema = "message m { required int64 id; optional binary name (UTF8); }";
    let names = Values::Bytes(vec![b"Alice", b"Carol"]);
    let columns = vec![required(Values::Int64(vec![1, 2, 3])), (names, vec![1, 0, 1], Vec::new())];
    write(schema, compression, columns)
}

#[test]
fn every_codec_is_read() {
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ];
    for codec in codecs {
        let (columns, rows) = read_bytes(Format::Parquet, people(codec)).unwrap();
        assert_eq!(columns, [("id".to_owned(), "INTEGER"), ("name".to_owned(), "TEXT")]);
        let expected =
            [(1, vec![int(1), text("Alice")]), (2, vec![int(2), CellValue::Null]), (3, vec![int(3), text("Carol")])];
        assert_eq!(rows, expected, "{codec}");
    }
}

#[test]
fn nested_columns_are_json() {
    let schema = "message m {
        optional group tags (LIST) { repeated group list { optional int64 element (TIMESTAMP(NANOS,true)); } }
        required group place { required double x; required binary name (UTF8); }
    }";
    let columns = vec![
        (Values::Int64(vec![0, 1]), vec![3, 3, 0], vec![0, 1, 0]),
        required(Values::Doubles(vec![1.5, 2.0])),
        required(Values::Bytes(vec![b"a\"b", b"c"])),
    ];
    let (columns, rows) = read_bytes(Format::Parquet, write(schema, Compression::SNAPPY, columns)).unwrap();
    assert_eq!(columns.iter().map(|column| column.1).collect::<Vec<_>>(), ["TEXT", "TEXT"]);
    let times = "[\"1970-01-01T00:00:00Z\",\"1970-01-01T00:00:00.000000001Z\"]";
    assert_eq!(rows[0].1, [text(times), text("{\"x\":1.5,\"name\":\"a\\\"b\"}")]);
    assert_eq!(rows[1].1, [CellValue::Null, text("{\"x\":2.0,\"name\":\"c\"}")]);
}

#[test]
fn what_expands_too_far_is_refused_before_it_is_read() {
    static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
    for codec in [
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::ZSTD(ZstdLevel::default()),
        Compression::SNAPPY,
        Compression::LZ4,
    ] {
        let file = write("message m { required binary a; }", codec, vec![required(Values::Bytes(vec![&ZEROS]))]);
        assert!(file.len() < 100_000, "{codec} takes {}", file.len());
        let told = |expanded_bytes| {
            let limits = FileLimits { expanded_bytes, ..FileLimits::default() };
            with_limits(Format::Parquet, &file, "t", limits, read).map(|(_, rows)| rows.len())
        };
        assert_eq!(told(2 << 20).unwrap(), 1);
        assert_eq!(told(1 << 19).unwrap_err().to_string(), "the file expands to more than 524288 bytes", "{codec}");
    }
}

/// The decoders read what a user uploaded. The lengths and offsets of matches are in the first bytes after the header of the page.
#[test]
fn damaged_pages_are_read_or_refused() {
    static TEXT: [u8; 600] = {
        let mut text = [b'a'; 600];
        let mut at = 0;
        while at < text.len() {
            text[at] = b"abcdefghijklmnopqrstuvwxyz"[at * at % 23];
            at += 1;
        }
        text
    };
    for codec in [
        Compression::GZIP(GzipLevel::default()),
        Compression::BROTLI(BrotliLevel::default()),
        Compression::ZSTD(ZstdLevel::default()),
        Compression::SNAPPY,
        Compression::LZ4,
        Compression::LZ4_RAW,
    ] {
        let file = write("message m { required binary a; }", codec, vec![required(Values::Bytes(vec![&TEXT]))]);
        let mut refused = 0;
        for at in 4..120 {
            for bits in [0x01, 0x0f, 0x40, 0xf0, 0xff] {
                let mut damaged = file.clone();
                damaged[at] ^= bits;
                refused += u32::from(read_bytes(Format::Parquet, damaged).is_err());
            }
        }
        assert!(refused > 100, "{codec}: {refused}");
    }
}

#[test]
fn other_files_are_refused() {
    let told = |file: &[u8]| errors(read_bytes(Format::Parquet, file)).remove(0);
    assert_eq!(told(b""), "not a Parquet file");
    assert_eq!(told(b"id,name\n1,Alice\n"), "not a Parquet file");
    assert_eq!(told(b"PAR1\xff\xff\xff\xffPAR1"), "the description of the file is longer than 67108864 bytes");
    let file = people(Compression::SNAPPY);
    for at in (4..file.len() - 8).step_by(3) {
        let mut damaged = file.clone();
        damaged[at] ^= 0xff;
        // Some bytes, such as those of statistics, have no effect. No damage may cause a panic.
        let _ = read_bytes(Format::Parquet, damaged);
    }
    let interval = "message m { required fixed_len_byte_array(12) a (INTERVAL); }";
    let file = write(interval, Compression::UNCOMPRESSED, vec![required(Values::Fixed(vec![b"123456789012"]))]);
    assert_eq!(told(&file), "column a: the type INTERVAL of FIXED_LEN_BYTE_ARRAY cannot be imported");
    let twice = "message m { required int32 a; required int32 A; }";
    let columns = vec![required(Values::Int32(vec![1])), required(Values::Int32(vec![1]))];
    assert!(told(&write(twice, Compression::UNCOMPRESSED, columns)).contains("differ only in case"));
}
