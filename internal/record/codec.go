package record

// A Codec is how a batch's records are compressed; the numbers are those on the wire.
type Codec int8

const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// String is Kafka's name: none, gzip, snappy, lz4, zstd.
func (c Codec) String() string { panic("unwritten") }

// Compress appends src compressed to dst. level is the codec's own; DefaultLevel means Kafka's default.
func Compress(dst, src []byte, c Codec, level int) ([]byte, error) { panic("unwritten") }

// DefaultLevel stands for Kafka's default of each codec (gzip -1, lz4 9, zstd 3).
const DefaultLevel = -1 << 31

// Decompress appends src inflated to dst, at most limit bytes: *TooLargeError beyond. Snappy may be xerial-framed or raw.
func Decompress(dst, src []byte, c Codec, limit int) ([]byte, error) { panic("unwritten") }

// A TooLargeError means that a payload inflates to more than was allowed.
type TooLargeError struct{ Limit int }

func (e *TooLargeError) Error() string { panic("unwritten") }

func decompressLegacyLZ4(dst, src []byte, limit int) ([]byte, error) { panic("unwritten") }
