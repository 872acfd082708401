/* A serving host without Python: loads a SavedModel by TensorFlow's C API and answers text requests.
 *
 * host MODEL_DIR OPS.so...        libraries of the ops that TensorFlow itself lacks (tensorflow-text's)
 *
 * Requests on standard input, answers on standard output, one JSON line a request:
 *     string text 2\n  3\nabc  0\n   run\n      the input `text` with two strings, given as length and bytes
 *     int32 text 2\n                 run\n      the same input as two int32 zeros: a client's mistake
 * An answer is {"answer": {output: [...]}} or {"error": "..."}; an error ends the request, not the host.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

enum { MAX_TENSORS = 16, MAX_NAME = 256 };

typedef struct {
    char key[MAX_NAME];    /* the name in the signature: text, label, ... */
    char tensor[MAX_NAME]; /* the name in the graph: serving_default_text:0 */
} Endpoint;

typedef struct {
    Endpoint inputs[MAX_TENSORS], outputs[MAX_TENSORS];
    int num_inputs, num_outputs;
} Signature;

static void die(const char *what, const char *why) {
    fprintf(stderr, "host: %s: %s\n", what, why);
    exit(1);
}

/* ---- The signature, out of the MetaGraphDef: four levels of protobuf, read without its library. ---- */

typedef struct {
    const uint8_t *at, *end;
} Bytes;

static uint64_t read_varint(Bytes *from) {
    uint64_t value = 0;
    for (int shift = 0; from->at < from->end && shift < 64; shift += 7) {
        uint8_t byte = *from->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return value;
    }
    die("MetaGraphDef", "broken varint");
    return 0;
}

/* The next field of a message: its number, and its content where it is a string or message. 0 at the end. */
static int next_field(Bytes *message, Bytes *content) {
    if (message->at >= message->end) return 0;
    uint64_t tag = read_varint(message), length = 0;
    *content = (Bytes){message->at, message->at};
    switch (tag & 7) {
        case 0: read_varint(message); break;
        case 1: length = 8; break;
        case 2: length = read_varint(message); break;
        case 5: length = 4; break;
        default: die("MetaGraphDef", "unknown wire type");
    }
    if (length > (uint64_t)(message->end - message->at)) die("MetaGraphDef", "cut short");
    if (length) *content = (Bytes){message->at, message->at + length};
    message->at += length;
    return (int)(tag >> 3);
}

static Bytes field(Bytes message, int wanted) {
    Bytes content, found = {NULL, NULL};
    for (int number; (number = next_field(&message, &content));)
        if (number == wanted) found = content;
    return found;
}

static void copy_name(char *to, Bytes from) {
    size_t length = (size_t)(from.end - from.at);
    if (length >= MAX_NAME) die("MetaGraphDef", "a name is too long");
    memcpy(to, from.at, length);
    to[length] = 0;
}

static int read_endpoints(Bytes signature, int number, Endpoint *endpoints) {
    int count = 0;
    Bytes entry;
    for (int found; (found = next_field(&signature, &entry));) {
        if (found != number) continue;
        if (count == MAX_TENSORS) die("signature", "too many tensors");
        copy_name(endpoints[count].key, field(entry, 1));
        copy_name(endpoints[count++].tensor, field(field(entry, 2), 1)); /* TensorInfo.name */
    }
    return count;
}

static Signature read_signature(const TF_Buffer *meta_graph, const char *name) {
    Bytes message = {meta_graph->data, (const uint8_t *)meta_graph->data + meta_graph->length}, entry;
    Signature signature = {0};
    for (int number; (number = next_field(&message, &entry));) {
        char key[MAX_NAME];
        if (number != 5) continue; /* MetaGraphDef.signature_def, a map */
        copy_name(key, field(entry, 1));
        if (strcmp(key, name)) continue;
        signature.num_inputs = read_endpoints(field(entry, 2), 1, signature.inputs);
        signature.num_outputs = read_endpoints(field(entry, 2), 2, signature.outputs);
    }
    if (!signature.num_inputs || !signature.num_outputs) die("no such signature", name);
    return signature;
}

static TF_Output graph_output(TF_Graph *graph, const char *tensor) {
    char name[MAX_NAME];
    strcpy(name, tensor);
    char *colon = strrchr(name, ':');
    int index = colon ? atoi(colon + 1) : 0;
    if (colon) *colon = 0;
    TF_Operation *operation = TF_GraphOperationByName(graph, name);
    if (!operation) die("not in the graph", name);
    return (TF_Output){operation, index};
}

/* ---- Requests ---- */

/* A tensor [count] as the request gives it; NULL when the input ends or is not in the form above. */
static TF_Tensor *read_tensor(const char *type, long count) {
    int64_t shape[1] = {count};
    if (!strcmp(type, "int32")) {
        TF_Tensor *tensor = TF_AllocateTensor(TF_INT32, shape, 1, (size_t)count * sizeof(int32_t));
        if (count) memset(TF_TensorData(tensor), 0, (size_t)count * sizeof(int32_t));
        return tensor;
    }
    TF_Tensor *tensor = TF_AllocateTensor(TF_STRING, shape, 1, (size_t)count * sizeof(TF_TString));
    TF_TString *strings = TF_TensorData(tensor);
    for (long i = 0; i < count; i++) TF_StringInit(&strings[i]);
    for (long i = 0; i < count; i++) {
        size_t length;
        if (scanf("%zu", &length) != 1 || getchar() != '\n') return NULL;
        char *bytes = malloc(length + 1);
        if (!bytes || fread(bytes, 1, length, stdin) != length) return NULL;
        TF_StringCopy(&strings[i], bytes, length);
        free(bytes);
    }
    return tensor;
}

static void free_tensor(TF_Tensor *tensor) {
    if (TF_TensorType(tensor) == TF_STRING) {
        TF_TString *strings = TF_TensorData(tensor);
        for (int64_t i = 0; i < TF_Dim(tensor, 0); i++) TF_StringDealloc(&strings[i]);
    }
    TF_DeleteTensor(tensor);
}

/* ---- Answers ---- */

static void print_string(const char *bytes, size_t length) {
    putchar('"');
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (byte < 0x20 || byte == '"' || byte == '\\')
            printf("\\u%04x", byte);
        else
            putchar(byte);
    }
    putchar('"');
}

/* Elements from `at` on, as nested JSON lists of the tensor's shape; returns how many were printed. */
static int64_t print_values(const TF_Tensor *tensor, int axis, int64_t at) {
    if (axis == TF_NumDims(tensor)) {
        if (TF_TensorType(tensor) == TF_STRING) {
            const TF_TString *string = (const TF_TString *)TF_TensorData(tensor) + at;
            print_string(TF_StringGetDataPointer(string), TF_StringGetSize(string));
        } else if (TF_TensorType(tensor) == TF_FLOAT) {
            printf("%.9g", (double)((const float *)TF_TensorData(tensor))[at]);
        } else {
            die("output", "is neither string nor float");
        }
        return 1;
    }
    int64_t printed = 0;
    putchar('[');
    for (int64_t i = 0; i < TF_Dim(tensor, axis); i++) {
        if (i) putchar(',');
        printed += print_values(tensor, axis + 1, at + printed);
    }
    putchar(']');
    return printed;
}

static void print_error(const char *message) {
    printf("{\"error\":");
    print_string(message, strlen(message));
    printf("}\n");
}

static void print_answer(const Signature *signature, TF_Tensor **outputs) {
    printf("{\"answer\":{");
    for (int i = 0; i < signature->num_outputs; i++) {
        if (i) putchar(',');
        print_string(signature->outputs[i].key, strlen(signature->outputs[i].key));
        putchar(':');
        print_values(outputs[i], 0, 0);
    }
    printf("}}\n");
}

static void run(TF_Session *session, TF_Graph *graph, const Signature *signature, TF_Tensor **given) {
    TF_Output feeds[MAX_TENSORS], fetches[MAX_TENSORS];
    TF_Tensor *outputs[MAX_TENSORS] = {0};
    for (int i = 0; i < signature->num_inputs; i++) {
        if (!given[i]) {
            print_error("an input of the signature is missing");
            return;
        }
        feeds[i] = graph_output(graph, signature->inputs[i].tensor);
    }
    for (int i = 0; i < signature->num_outputs; i++) fetches[i] = graph_output(graph, signature->outputs[i].tensor);
    TF_Status *status = TF_NewStatus();
    TF_SessionRun(session, NULL, feeds, given, signature->num_inputs, fetches, outputs, signature->num_outputs, NULL, 0,
                  NULL, status);
    if (TF_GetCode(status) == TF_OK)
        print_answer(signature, outputs);
    else
        print_error(TF_Message(status));
    for (int i = 0; i < signature->num_outputs; i++)
        if (outputs[i]) TF_DeleteTensor(outputs[i]);
    TF_DeleteStatus(status);
}

/* Reads one request into given[]; 1 when it is to be run, 0 when the input ends. */
static int read_request(const Signature *signature, TF_Tensor **given) {
    char type[16], name[MAX_NAME];
    while (scanf("%15s", type) == 1) {
        long count;
        int i = 0;
        if (!strcmp(type, "run")) return 1;
        if (scanf("%255s %ld", name, &count) != 2 || count < 0 || getchar() != '\n') die("request", "expected: type name count");
        while (i < signature->num_inputs && strcmp(signature->inputs[i].key, name)) i++;
        if (i == signature->num_inputs) die("no such input", name);
        if (!(given[i] = read_tensor(type, count))) die("request", "cut short");
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2) die("usage", "host MODEL_DIR OPS.so... < requests");
    TF_Status *status = TF_NewStatus();
    for (int i = 2; i < argc; i++) {
        TF_LoadLibrary(argv[i], status);
        if (TF_GetCode(status) != TF_OK) die(argv[i], TF_Message(status));
    }
    const char *tags[] = {"serve"};
    TF_SessionOptions *options = TF_NewSessionOptions();
    TF_Graph *graph = TF_NewGraph();
    TF_Buffer *meta_graph = TF_NewBuffer();
    TF_Session *session = TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph, meta_graph, status);
    if (TF_GetCode(status) != TF_OK) die(argv[1], TF_Message(status));
    Signature signature = read_signature(meta_graph, "serving_default");

    for (;;) {
        TF_Tensor *given[MAX_TENSORS] = {0};
        int ready = read_request(&signature, given);
        if (ready) run(session, graph, &signature, given);
        fflush(stdout);
        for (int i = 0; i < signature.num_inputs; i++)
            if (given[i]) free_tensor(given[i]);
        if (!ready) break;
    }
    TF_CloseSession(session, status);
    TF_DeleteSession(session, status);
    TF_DeleteBuffer(meta_graph);
    TF_DeleteGraph(graph);
    TF_DeleteSessionOptions(options);
    TF_DeleteStatus(status);
    return 0;
}
