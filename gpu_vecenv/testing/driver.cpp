// Replays launches that recording.py recorded. The file is compiled after a kernel's text, so that kernel, threads and
// memory belong to one program, which a sanitizer checks from its first instruction. Each array has a heap block of exactly its
// size.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static FILE* recording;

static void read_bytes(void* to, size_t size) {
    if (size != 0 && fread(to, 1, size, recording) != size) {
        fprintf(stderr, "the recording ends too early\n");
        exit(2);
    }
}

static gv_i64 read_number() {
    gv_i64 number;
    read_bytes(&number, sizeof number);
    return number;
}

int main(int, char** arguments) {
    recording = fopen(arguments[1], "rb");
    if (recording == nullptr) return 2;
    std::vector<gv_i64> pointers(read_number());
    for (gv_i64& offset : pointers) offset = read_number();
    std::vector<char*> arrays(read_number());
    for (char*& array : arrays) {
        const size_t size = read_number();
        array = (char*)malloc(size);
        read_bytes(array, size);
    }
    for (gv_i64 launches = read_number(); launches > 0; --launches) {
        const gv_i64 kernel = read_number();
        GvArgs args;
        read_bytes(&args, sizeof args);
        for (gv_i64 offset : pointers) {  // an array's number, from 1 on, or 0 for null
            gv_i64 number;
            memcpy(&number, (char*)&args + offset, sizeof number);
            char* address = number == 0 ? nullptr : arrays[number - 1];
            memcpy((char*)&args + offset, &address, sizeof address);
        }
        (kernel == 0 ? gv_reset : kernel == 1 ? gv_step : kernel == 2 ? gv_observe : gv_rollout)(&args, 0, args.num_worlds);
#ifdef GV_DEBUG
        if (gv_fault_record.set) {
            fprintf(stderr, "hook fault: %s\n", gv_fault_record.text);
            return 1;
        }
#endif
    }
    for (char* array : arrays) free(array);
    fclose(recording);
    printf("replayed\n");
    return 0;
}
