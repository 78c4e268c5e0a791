/* SpargeAttention2 kernels: the C ABI, in C99. The same calls as sparge.hpp, for C and for whatever can call C.
 *
 * USE. Make a plan from shapes (no CUDA call), allocate `plan.workspace_bytes` of device memory, then call. Calls only enqueue
 * work on the stream: they never allocate, synchronise or read back, may be captured into a CUDA graph and may be made from any
 * thread. A refused call has launched nothing and written nothing but the status. Nothing here needs to be destroyed.
 *
 *   sparge_status status = {.struct_size = sizeof status};
 *   sparge_device device = {.struct_size = sizeof device};
 *   sparge_problem problem = {.struct_size = sizeof problem, .batch = 1, .heads = 12, .kv_heads = 12,
 *                             .q_tokens = 32760, .kv_tokens = 32760, .head_dim = 128};
 *   sparge_plan plan = {.struct_size = sizeof plan};
 *   if (sparge_query_device(0, &device, &status) != SPARGE_OK ||
 *       sparge_plan_forward(&problem, SPARGE_BF16, &device, NULL, &plan, &status) != SPARGE_OK)
 *     puts(status.text);
 *
 * VERSIONS. A struct begins with `struct_size`, which the caller sets to sizeof of the struct, zeroing the rest before filling it
 * in; every member that is not described otherwise may stay zero. Library and caller may be of different versions: a struct only
 * ever grows at its end, and zero in a new member means what the older version did. An older caller's missing members read as
 * zero. A newer caller's members that the library does not know must be zero, else the call is refused as SPARGE_UNSUPPORTED,
 * naming the struct; in a struct that the library writes, it sets them to zero. A `struct_size` that no version had is refused.
 * Structs without `struct_size` (sparge_tensor, sparge_mask, sparge_mask_stats_record, sparge_calibration_record) never change; `reserved` members must be 0.
 *
 * WORDS. batch, heads (of queries), kv_heads (a divisor of heads; query head h reads kv head h / (heads / kv_heads)), q_tokens,
 * kv_tokens, head_dim. A mask block is q_block query tokens by kv_block key tokens; q_blocks = ceil(q_tokens / q_block), kv_blocks
 * likewise; the last block of an axis may be partial. "Device" pointers are memory that the GPU can read and, for outputs, write.
 * An output must not have the address of another argument; other overlap is undefined.
 */
#ifndef SPARGE_H
#define SPARGE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SPARGE_API __attribute__((visibility("default")))
#else
#define SPARGE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Results ----------------------------------------------------------------------------------------------------- */

/* What every call returns. Numbers never change; later versions may add some. */
typedef int32_t sparge_code;
enum {
  SPARGE_OK = 0,
  SPARGE_INVALID_ARGUMENT = 1,    /* a value that no build could accept */
  SPARGE_UNSUPPORTED = 2,         /* a legal request that this build, or this device, has no kernel for */
  SPARGE_WORKSPACE_TOO_SMALL = 3, /* `given` and `expected` are bytes */
  SPARGE_PLAN_MISMATCH = 4,       /* an argument or the current device is not what the plan was made for */
  SPARGE_CUDA_ERROR = 5           /* the CUDA runtime refused; see `cuda_error` */
};

/* Why a call was refused. Null is allowed wherever a status is asked for. A status whose own struct_size is wrong cannot be
 * written: the call then does nothing and returns SPARGE_INVALID_ARGUMENT. */
typedef struct {
  size_t struct_size;
  sparge_code code;
  int32_t cuda_error; /* a cudaError_t; 0 unless code is SPARGE_CUDA_ERROR */
  int32_t axis;       /* index into an array field such as "q.stride", -1 = the field is no array */
  int32_t reserved;
  char const* field;       /* the argument, e.g. "q.stride", or ""; lives as long as the library */
  int64_t given, expected; /* where the refusal is about whole numbers, else 0 */
  char text[464];          /* one terminated line for people: field, values, what is wrong, what would work */
} sparge_status;

/* ---- Device and problem ------------------------------------------------------------------------------------------- */

/* The handle that the CUDA runtime calls cudaStream_t and the driver CUstream. Null is the legacy default stream. */
typedef struct CUstream_st* sparge_stream;

/* Element type of tensors. 0 is no type. Attention and its masks take SPARGE_BF16 and SPARGE_F16; SPARGE_F32 is for
 * velocity distillation and for the merging of partial results alone. Types of 8 bits will take further numbers; an unknown number is refused. */
typedef int32_t sparge_dtype;
enum { SPARGE_BF16 = 1, SPARGE_F16 = 2, SPARGE_F32 = 3 };

/* What a plan needs to know of a GPU: filled by sparge_query_device(), or by hand to plan for a GPU that is not here. */
typedef struct {
  size_t struct_size;
  int32_t ordinal; /* CUDA device index; it must be the current device when the plan is used */
  int32_t capability_major, capability_minor;
  int32_t sm_count;
  int64_t shared_bytes_per_block; /* largest opt-in dynamic shared memory of one thread block */
  int64_t shared_bytes_per_sm;
  int64_t l2_bytes;
} sparge_device;

typedef int32_t sparge_order;
enum {
  SPARGE_ORDER_NONE = 0,               /* every query may attend to every key */
  SPARGE_ORDER_CAUSAL_BOTTOM_RIGHT = 1 /* key j <= i + kv_tokens - q_tokens; not built yet, refused by name */
};

/* What is computed, as shapes alone. batch, q_tokens and kv_tokens may be 0. A shard of queries of a larger problem, against all of
 * its keys, says where it lies by q_offset and all_q_tokens, so that rules count positions in the whole problem and its mask is the
 * whole mask's rows; they have no effect on anything else. A shard of keys needs no position: see sparge_slice_mask(). */
typedef struct {
  size_t struct_size;
  int64_t batch, heads, kv_heads, q_tokens, kv_tokens;
  int32_t head_dim;
  int32_t q_block;  /* tokens; 0 = 128 */
  int32_t kv_block; /* tokens; 0 = 64 */
  float scale;      /* of the logits; 0 = 1 / sqrt(head_dim), else finite and > 0 */
  sparge_order order;
  int32_t reserved;
  int64_t q_offset;     /* queries of the whole problem before these; a multiple of q_block */
  int64_t all_q_tokens; /* queries of the whole problem; 0 = q_offset + q_tokens */
} sparge_problem;

/* The shape of velocity distillation: `samples` contiguous samples of `sample_elements` elements each, whatever their own shape.
 * Either may be 0. */
typedef struct {
  size_t struct_size;
  int64_t samples, sample_elements;
} sparge_distillation_problem;

typedef int32_t sparge_pointer_check;
enum {
  SPARGE_CHECK_ALIGNMENT = 0, /* null and alignment only; costs nothing */
  SPARGE_CHECK_LOCATION = 1   /* also that the device can reach the memory: about a microsecond a pointer */
};

/* What a caller may choose when making a plan. Null options are all zeros. `force_kernel` is of forward an index of
 * sparge_supported_kernel(), of backward one of sparge_supported_backward_kernel(), whose other pass is chosen as ever. */
typedef struct {
  size_t struct_size;
  int32_t has_force_kernel; /* 1 = use `force_kernel` or refuse, 0 = the best one for problem and device */
  int32_t force_kernel;     /* 0 unless has_force_kernel */
  sparge_pointer_check pointer_check;
  int32_t reserved;
} sparge_options;

/* ---- Tensors, masks, rules ---------------------------------------------------------------------------------------- */

/* A borrowed device tensor in logical order (batch, head, token, channel), whatever its layout in memory. `data` and, in bytes,
 * every stride are multiples of 16; the channel stride is 1. Strides of 0 (broadcast) are legal for inputs, never for outputs.
 * Inputs are not written. `data` may be null where the shape has no elements. */
typedef struct {
  void* data;
  int64_t shape[4];
  int64_t stride[4];  /* in elements */
  sparge_dtype dtype; /* must be what the plan was made for */
  int32_t reserved;
} sparge_tensor;

/* A block mask in device memory, 16-byte aligned: one bit per (query block, key block), 1 = kept. Key block j of row (batch b,
 * query head h, query block i) is bit j mod 32, least significant first, of word [b][h][i][j / 32]: an array of uint32
 * [batch, heads, q_blocks, ceil(kv_blocks / 32)]. Written rows are padded with zeros, readers ignore the padding. */
typedef struct {
  uint32_t* data;
  size_t words; /* the whole length, as sparge_mask_words() gives it; another is refused */
} sparge_mask;

/* Which key blocks a row (one query block of one head) keeps. Candidates are ordered by pooled score, ties by index; the row keeps
 * the longer of two prefixes of that order, top_k and top_p, and the blocks that are kept regardless. There are no defaults: a
 * share of 0 asks for nothing. SpargeAttention2 uses top_k 0.03, top_p 0.2; min_blocks 1 keeps a row from being empty.
 *
 * The shares of single heads are optional device arrays [heads] of f32, 16-byte aligned, that replace top_k and top_p; their values
 * are clamped to [0, 1], and NaN means the one for all. The band keeps every pair of blocks that holds a query q and a key k with
 * |k - q - (kv_tokens - q_tokens)| <= band_tokens. Queries count in the whole problem, see sparge_problem. */
typedef struct {
  size_t struct_size;
  double top_k; /* share of key blocks, in [0, 1]; rounded up */
  double top_p; /* share of softmax mass over pooled scores, in [0, 1]; the block that crosses is kept */
  float const* top_k_of_head;
  float const* top_p_of_head;
  int32_t min_blocks;           /* at least this many blocks by top_k, clamped to the candidates */
  int32_t has_band;             /* 1 = keep the band, 0 = none */
  int64_t band_tokens;          /* 0 unless has_band */
  int64_t kv_front_tokens;      /* keep the key blocks that hold the first tokens, this many */
  int64_t kv_back_tokens;       /* ... the last tokens */
  int64_t dense_q_front_tokens; /* query blocks that hold the first tokens, this many, keep everything */
  int64_t dense_q_back_tokens;  /* ... the last tokens */
} sparge_mask_rule;

/* What a mask keeps of one (batch, query head). Written on the device. */
typedef struct {
  int64_t kept_pairs;    /* block pairs kept; sparsity = 1 - kept_pairs / all_pairs */
  int64_t all_pairs;     /* q_blocks * kv_blocks, partial blocks counted as whole */
  int64_t owed_to_both;  /* pairs that top_k and top_p each ask for */
  int64_t owed_to_top_k; /* pairs that top_k alone asks for */
  int64_t owed_to_top_p; /* pairs that top_p alone asks for */
  int64_t owed_to_force; /* kept pairs that neither asks for */
  double pooled_mass;    /* kept softmax mass over *pooled* scores, mean over query blocks */
} sparge_mask_stats_record;

/* What top_p is sought for. Each is an int32: */
enum {
  SPARGE_CALIBRATE_SPARSITY = 0, /* the largest top_p whose masks are at least this sparse */
  SPARGE_CALIBRATE_KEPT_MASS =
      1 /* the smallest top_p whose masks keep at least this share of the pooled softmax mass */
};
enum {
  SPARGE_CALIBRATE_EACH_HEAD = 0, /* every head meets the target by a top_p of its own */
  SPARGE_CALIBRATE_ALL_HEADS = 1  /* one top_p for all heads, which meet the target together */
};

/* What the found top_p keeps of one query head, and what either rule would keep without the other; of all batch items, with the blocks
 * that are kept regardless. Masses are means over query blocks. Written on the device. */
typedef struct {
  int64_t kept_pairs;  /* block pairs that the whole rule keeps; sparsity = 1 - kept_pairs / all_pairs */
  int64_t all_pairs;   /* batch * q_blocks * kv_blocks, partial blocks counted as whole */
  int64_t top_k_pairs; /* without top_p */
  int64_t top_p_pairs; /* without top_k and min_blocks */
  double kept_mass;    /* softmax mass over *pooled* scores that the whole rule keeps */
  double top_k_mass, top_p_mass;
  float top_p; /* as in top_p_of_head */
  int32_t met; /* 1 = the target is met, 0 = no top_p meets it, and this is the nearest */
} sparge_calibration_record;

/* ---- Version, device, sizes, kernels ------------------------------------------------------------------------------ */

/* The library's version, such as "0.1.0". */
SPARGE_API char const* sparge_version(void);

/* Reads what plans need to know of a GPU. Leaves the current device as it was. Refused: an ordinal without a device. */
SPARGE_API sparge_code sparge_query_device(int32_t ordinal, sparge_device* device, sparge_status* status);

/* Length of a mask in words of 32 bits: batch * heads * q_blocks * ceil(kv_blocks / 32). */
SPARGE_API sparge_code sparge_mask_words(sparge_problem const* problem, size_t* words, sparge_status* status);

/* Length of a transposed mask: batch * heads * kv_blocks * ceil(q_blocks / 32). */
SPARGE_API sparge_code sparge_transposed_mask_words(sparge_problem const* problem, size_t* words,
                                                    sparge_status* status);

/* One attention kernel of this build. */
typedef struct {
  size_t struct_size;
  char const* name; /* e.g. "sm80 bf16 d128 tile 128x64 stages 2 warps 4"; lives as long as the library */
  sparge_dtype dtype;
  int32_t head_dim;
  int32_t q_tile, kv_tile; /* tokens */
} sparge_kernel;

/* Number of forward kernels in the table; an index below it is what `force_kernel` takes and what `plan.kernel` gives. */
SPARGE_API int32_t sparge_supported_kernels(void);

/* Describes one. Refused: an index out of range (SPARGE_INVALID_ARGUMENT) or a kernel that this build left out
 * (SPARGE_UNSUPPORTED). */
SPARGE_API sparge_code sparge_supported_kernel(int32_t index, sparge_kernel* kernel, sparge_status* status);

/* The same for the backward kernels, of both passes: names begin with "dkdv" (gradients of K and V) or "dq". */
SPARGE_API int32_t sparge_supported_backward_kernels(void);
SPARGE_API sparge_code sparge_supported_backward_kernel(int32_t index, sparge_kernel* kernel,
                                                        sparge_status* status);

/* ---- Plans: no CUDA call ------------------------------------------------------------------------------------------ */

/* A plan lives where the caller puts it: on the stack, in a cache. Copy it freely. Its size never changes. It may be used from
 * several threads, and only with the library that made it: neither stored in a file nor handed to another version. Plans of
 * equal inputs are equal bytes.
 * Of forward `kernel` is the chosen sparge_supported_kernel(); of backward, `kernel` and `dq_kernel` are the chosen
 * sparge_supported_backward_kernel() for dK and dV and for dQ. Both are -1 where there is no choice. */
typedef struct {
  size_t struct_size;
  size_t workspace_bytes; /* that the call needs */
  int32_t operation;      /* which call it is for; another one refuses it */
  sparge_dtype dtype;     /* 0 where the operation has none */
  int32_t kernel;         /* of forward, or of dK and dV */
  int32_t dq_kernel;
  uint64_t opaque[60];
} sparge_plan;

/* All refuse, naming field and value: a problem that makes no sense or does not fit 64 bits (SPARGE_INVALID_ARGUMENT), and one
 * that this build has no kernel for on that device (SPARGE_UNSUPPORTED: head_dim, block sizes, dtype, order, capability, shared
 * memory). A refused plan is left as it was. */
SPARGE_API sparge_code sparge_plan_pool(sparge_problem const* problem, sparge_dtype dtype,
                                        sparge_device const* device, sparge_options const* options,
                                        sparge_plan* plan, sparge_status* status);
SPARGE_API sparge_code sparge_plan_select_blocks(sparge_problem const* problem, sparge_device const* device,
                                                 sparge_options const* options, sparge_plan* plan,
                                                 sparge_status* status);
SPARGE_API sparge_code sparge_plan_build_mask(sparge_problem const* problem, sparge_dtype dtype,
                                              sparge_device const* device, sparge_options const* options,
                                              sparge_plan* plan, sparge_status* status);
SPARGE_API sparge_code sparge_plan_mask_stats(sparge_problem const* problem, sparge_device const* device,
                                              sparge_options const* options, sparge_plan* plan,
                                              sparge_status* status);
SPARGE_API sparge_code sparge_plan_calibrate(sparge_problem const* problem, sparge_device const* device,
                                             sparge_options const* options, sparge_plan* plan,
                                             sparge_status* status);
SPARGE_API sparge_code sparge_plan_mask_form(sparge_problem const* problem, sparge_device const* device,
                                             sparge_options const* options, sparge_plan* plan,
                                             sparge_status* status);
SPARGE_API sparge_code sparge_plan_forward(sparge_problem const* problem, sparge_dtype dtype,
                                           sparge_device const* device, sparge_options const* options,
                                           sparge_plan* plan, sparge_status* status);
/* Workspace: batch * heads * 8 bytes a query token, rounded up; it has no term in q_tokens * head_dim. */
SPARGE_API sparge_code sparge_plan_backward(sparge_problem const* problem, sparge_dtype dtype,
                                            sparge_device const* device, sparge_options const* options,
                                            sparge_plan* plan, sparge_status* status);
/* No workspace. Of every dtype. batch, heads, q_tokens and head_dim of the problem count. */
SPARGE_API sparge_code sparge_plan_merge_partials(sparge_problem const* problem, sparge_dtype dtype,
                                                  sparge_device const* device, sparge_options const* options,
                                                  sparge_plan* plan, sparge_status* status);
/* Workspace: 8 bytes for each run of 1024 loads of 16 bytes, rounded up to 256, at most 32 KiB. Of every dtype. */
SPARGE_API sparge_code sparge_plan_distillation_loss(sparge_distillation_problem const* problem,
                                                     sparge_dtype dtype, sparge_device const* device,
                                                     sparge_options const* options, sparge_plan* plan,
                                                     sparge_status* status);
/* No workspace. Of every dtype. */
SPARGE_API sparge_code sparge_plan_interpolate(sparge_distillation_problem const* problem, sparge_dtype dtype,
                                               sparge_device const* device, sparge_options const* options,
                                               sparge_plan* plan, sparge_status* status);

/* ---- Calls: enqueue only ------------------------------------------------------------------------------------------ */

/* All take a plan of their own operation and refuse another (SPARGE_PLAN_MISMATCH). `workspace` is device memory, 256-byte
 * aligned, of at least plan->workspace_bytes; its contents are undefined before and after, zero bytes may be null, and two calls
 * that may run at the same time need two. Shapes other than the plan's are refused (SPARGE_PLAN_MISMATCH), as are null,
 * misaligned and overlapping arguments (SPARGE_INVALID_ARGUMENT). Errors of the CUDA runtime are SPARGE_CUDA_ERROR. */

/* Mean over the valid tokens of each block, accumulated and stored in f32. */
typedef struct {
  size_t struct_size;
  sparge_tensor q; /* [batch, heads, q_tokens, head_dim] */
  sparge_tensor k; /* [batch, kv_heads, kv_tokens, head_dim] */
  float* pooled_q; /* out, contiguous [batch, heads, q_blocks, head_dim], 16-byte aligned */
  float* pooled_k; /* out, contiguous [batch, kv_heads, kv_blocks, head_dim], 16-byte aligned */
} sparge_pool_args;
SPARGE_API sparge_code sparge_pool(sparge_plan const* plan, sparge_pool_args const* args, void* workspace,
                                   size_t workspace_bytes, sparge_stream stream, sparge_status* status);

/* Pooled vectors to mask bits. */
typedef struct {
  size_t struct_size;
  float const* pooled_q; /* as sparge_pool() writes them */
  float const* pooled_k;
  sparge_mask_rule const* rule;
  sparge_mask mask; /* out */
} sparge_select_blocks_args;
SPARGE_API sparge_code sparge_select_blocks(sparge_plan const* plan, sparge_select_blocks_args const* args,
                                            void* workspace, size_t workspace_bytes, sparge_stream stream,
                                            sparge_status* status);

/* Pooling and selection in one call. */
typedef struct {
  size_t struct_size;
  sparge_tensor q; /* [batch, heads, q_tokens, head_dim] */
  sparge_tensor k; /* [batch, kv_heads, kv_tokens, head_dim] */
  sparge_mask_rule const* rule;
  sparge_mask mask; /* out */
} sparge_build_mask_args;
SPARGE_API sparge_code sparge_build_mask(sparge_plan const* plan, sparge_build_mask_args const* args,
                                         void* workspace, size_t workspace_bytes, sparge_stream stream,
                                         sparge_status* status);

/* What a mask, the caller's own included, keeps, and which part of the rule asks for it. */
typedef struct {
  size_t struct_size;
  float const* pooled_q; /* as sparge_pool() writes them */
  float const* pooled_k;
  sparge_mask_rule const* rule;
  sparge_mask mask;
  sparge_mask_stats_record* stats; /* out, device [batch, heads], 16-byte aligned */
} sparge_mask_stats_args;
SPARGE_API sparge_code sparge_mask_stats(sparge_plan const* plan, sparge_mask_stats_args const* args,
                                         void* workspace, size_t workspace_bytes, sparge_stream stream,
                                         sparge_status* status);

/* Finds top_p among the multiples of 2^-24 in [0, 1]: for a sparsity the largest whose masks are at least that sparse, for a mass the
 * smallest whose masks keep at least that much. Masks are those that sparge_select_blocks() and sparge_build_mask() make of
 * these vectors with the found top_p_of_head. Where no top_p meets the target the nearest is written, 0 or 1, and `met` is 0. */
typedef struct {
  size_t struct_size;
  float const* pooled_q; /* as sparge_pool() writes them */
  float const* pooled_k;
  sparge_mask_rule const* rule;      /* top_p and top_p_of_head are sought and not read */
  double target;                     /* in [0, 1]: a sparsity or a mass */
  int32_t goal;                      /* SPARGE_CALIBRATE_SPARSITY or SPARGE_CALIBRATE_KEPT_MASS */
  int32_t scope;                     /* SPARGE_CALIBRATE_EACH_HEAD or SPARGE_CALIBRATE_ALL_HEADS */
  float* top_p_of_head;              /* out, device [heads], 16-byte aligned: what sparge_mask_rule takes */
  sparge_calibration_record* report; /* optional out, device [heads], 16-byte aligned */
} sparge_calibrate_args;
SPARGE_API sparge_code sparge_calibrate(sparge_plan const* plan, sparge_calibrate_args const* args,
                                        void* workspace, size_t workspace_bytes, sparge_stream stream,
                                        sparge_status* status);

/* Block-sparse attention: softmax over the kept keys of scale * q k^T, times v. Where it is asked for, lse is the natural logarithm
 * of the sum of exp of the scaled logits over the kept keys, -inf where a row keeps none. */
typedef struct {
  size_t struct_size;
  sparge_tensor q; /* [batch, heads, q_tokens, head_dim] */
  sparge_tensor k; /* [batch, kv_heads, kv_tokens, head_dim] */
  sparge_tensor v; /* [batch, kv_heads, kv_tokens, head_dim] */
  sparge_mask mask;
  sparge_tensor out; /* out, [batch, heads, q_tokens, head_dim]; rows that keep no key are 0 */
  float* lse;        /* optional out, contiguous [batch, heads, q_tokens], 16-byte aligned */
} sparge_forward_args;
SPARGE_API sparge_code sparge_forward(sparge_plan const* plan, sparge_forward_args const* args,
                                      void* workspace, size_t workspace_bytes, sparge_stream stream,
                                      sparge_status* status);

/* Gradients of a loss through `out` and, where grad_lse is given, through `lse`; both may be those of sparge_forward() or merged
 * over shards. The mask is a constant. grad_k and grad_v are sums over the query heads of a group. Every element of the outputs
 * is written once, zeros where nothing is kept included, and two runs give the same bits. */
typedef struct {
  size_t struct_size;
  sparge_tensor q;        /* [batch, heads, q_tokens, head_dim] */
  sparge_tensor k;        /* [batch, kv_heads, kv_tokens, head_dim] */
  sparge_tensor v;        /* like k */
  sparge_tensor out;      /* like q */
  sparge_tensor grad_out; /* like q, laid out on its own */
  float const* lse;       /* contiguous [batch, heads, q_tokens], 16-byte aligned */
  float const* grad_lse;  /* optional, like lse; null for zeros */
  sparge_mask mask;       /* that of sparge_forward() */
  sparge_tensor grad_q;   /* out, like q */
  sparge_tensor grad_k;   /* out, like k */
  sparge_tensor grad_v;   /* out, like k */
} sparge_backward_args;
SPARGE_API sparge_code sparge_backward(sparge_plan const* plan, sparge_backward_args const* args,
                                       void* workspace, size_t workspace_bytes, sparge_stream stream,
                                       sparge_status* status);

/* ---- Partial results: one of several, by their lse ---------------------------------------------------------------- */

/* What sparge_forward() wrote for a shard of the keys, or an earlier merge for several. */
typedef struct {
  sparge_tensor out; /* [batch, heads, q_tokens, head_dim]; not read where lse is -inf */
  float const* lse;  /* contiguous [batch, heads, q_tokens], 16-byte aligned; -inf: no key was kept */
} sparge_partial;

/* Partial results that one call merges at most, besides a running one. */
enum { SPARGE_MOST_PARTIALS = 16 };

/* Results over disjoint sets of keys become the result over their union:
 *   lse = ln(sum over i of exp(lse_i)), out = sum over i of exp(lse_i - lse) * out_i,
 * in f32 and in a fixed order: running first, then by index. A row without keys in all of them is 0 with lse -inf; one with keys in a
 * single one is that one, bit by bit. NaN and infinity of a partial result with keys propagate; an lse of NaN or +inf makes its row
 * NaN. A ring of more than SPARGE_MOST_PARTIALS, or one that keeps no results, carries running_out and lse of a call into the next
 * one's running, in two buffers by turns. Optional members are all zeros for none; `out` or `running_out` must be given. */
typedef struct {
  size_t struct_size;
  sparge_partial const* partials; /* host array of `count` */
  int32_t count; /* at most SPARGE_MOST_PARTIALS; at least 1 unless there is a running result */
  int32_t reserved;
  sparge_partial running;    /* optional, SPARGE_F32 */
  sparge_tensor out;         /* optional out, of the plan's dtype: rounded once */
  sparge_tensor running_out; /* optional out, SPARGE_F32: the same, not rounded */
  float* lse;                /* optional out, contiguous [batch, heads, q_tokens], 16-byte aligned */
} sparge_merge_partials_args;
SPARGE_API sparge_code sparge_merge_partials(sparge_plan const* plan, sparge_merge_partials_args const* args,
                                             sparge_stream stream, sparge_status* status);

/* ---- Velocity distillation ----------------------------------------------------------------------------------------- */

/* A student with sparse attention learns to predict the velocity that a frozen teacher with full attention predicts for the same
 * x_t, time and condition. Tensors are contiguous [samples, sample_elements]; an output may not overlap another argument at all.
 *
 * Loss and gradient in one pass, where count = samples * sample_elements and sums run over all elements:
 *   loss         = sum of weights[sample] * (student - teacher)^2 / count, 0 where count is 0
 *   grad_student = 2 * weights[sample] * grad_loss * (student - teacher) / count, computed in f32 and rounded once
 * grad_loss is the gradient from behind the loss, or a loss scale; the loss depends neither on it nor on whether the gradient is
 * asked for. Two runs give the same bits. Squares must stay in the range of f32. */
typedef struct {
  size_t struct_size;
  sparge_dtype dtype; /* of student, teacher and grad_student; must be what the plan was made for */
  int32_t reserved;
  void const* student;    /* 16-byte aligned */
  void const* teacher;    /* like student */
  float const* weights;   /* optional, device [samples]; null for ones */
  float const* grad_loss; /* optional, device, one value; null for 1 */
  float* loss;            /* out, device, one value */
  void* grad_student;     /* optional out, like student; null for the loss alone */
} sparge_distillation_loss_args;
SPARGE_API sparge_code sparge_distillation_loss(sparge_plan const* plan,
                                                sparge_distillation_loss_args const* args, void* workspace,
                                                size_t workspace_bytes, sparge_stream stream,
                                                sparge_status* status);

/* The point x_t of the straight path from noise to data. */
typedef struct {
  size_t struct_size;
  sparge_dtype dtype; /* of x0, x1 and x_t; must be what the plan was made for */
  int32_t reserved;
  void const* x0; /* noise, 16-byte aligned */
  void const* x1; /* data, like x0 */
  float const* t; /* device [samples]; any finite value, 0 gives x0 and 1 gives x1 */
  void* x_t;      /* out, like x0: t * x1 + (1 - t) * x0, computed in f32 and rounded once */
} sparge_interpolate_args;
SPARGE_API sparge_code sparge_interpolate(sparge_plan const* plan, sparge_interpolate_args const* args,
                                          sparge_stream stream, sparge_status* status);

/* ---- Forms of a mask: plans of sparge_plan_mask_form(), no workspace ---------------------------------------------- */

typedef struct {
  size_t struct_size;
  sparge_mask mask;       /* [batch, heads, q_blocks, kv_blocks] */
  sparge_mask transposed; /* out, [batch, heads, kv_blocks, q_blocks]; see sparge_transposed_mask_words() */
} sparge_transpose_mask_args;
SPARGE_API sparge_code sparge_transpose_mask(sparge_plan const* plan, sparge_transpose_mask_args const* args,
                                             sparge_stream stream, sparge_status* status);

/* The mask of a shard: blocks [first, first + count) of both axes of `mask`, as the mask of a problem that has their tokens. The rule
 * chooses among all keys of a row, so a shard of keys gets the whole mask's columns and not a choice of its own. */
typedef struct {
  size_t struct_size;
  sparge_mask mask; /* of the plan's problem */
  int64_t q_first_block, q_block_count;
  int64_t kv_first_block, kv_block_count;
  sparge_mask shard; /* out, [batch, heads, q_block_count, kv_block_count] */
} sparge_slice_mask_args;
SPARGE_API sparge_code sparge_slice_mask(sparge_plan const* plan, sparge_slice_mask_args const* args,
                                         sparge_stream stream, sparge_status* status);

/* One byte per pair, contiguous [batch, heads, q_blocks, kv_blocks]; non-zero = kept, written as 1. */
typedef struct {
  size_t struct_size;
  sparge_mask mask;
  uint8_t* bytes;     /* device, any alignment */
  size_t bytes_count; /* batch * heads * q_blocks * kv_blocks; another is refused */
} sparge_byte_mask_args;
SPARGE_API sparge_code sparge_mask_to_bytes(sparge_plan const* plan, sparge_byte_mask_args const* args,
                                            sparge_stream stream, sparge_status* status);
SPARGE_API sparge_code sparge_mask_from_bytes(sparge_plan const* plan, sparge_byte_mask_args const* args,
                                              sparge_stream stream, sparge_status* status);

/* Padded index lists, as FlexAttention uses. The first counts[...] entries of a list are key blocks. On reading, duplicates are
 * idempotent, entries outside [0, kv_blocks) are skipped and a count is clamped to [0, capacity]. Written lists ascend; entries
 * past the count are -1. */
typedef struct {
  size_t struct_size;
  sparge_mask mask;
  int32_t* counts;  /* device [batch, heads, q_blocks] */
  int32_t* indices; /* device [batch, heads, q_blocks, capacity] */
  int64_t capacity; /* written lists need at least kv_blocks, so that no mask can overflow them */
} sparge_block_lists_args;
SPARGE_API sparge_code sparge_mask_to_lists(sparge_plan const* plan, sparge_block_lists_args const* args,
                                            sparge_stream stream, sparge_status* status);
SPARGE_API sparge_code sparge_mask_from_lists(sparge_plan const* plan, sparge_block_lists_args const* args,
                                              sparge_stream stream, sparge_status* status);

#ifdef __cplusplus
}
#endif

#endif /* SPARGE_H */
