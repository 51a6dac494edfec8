// A growing list whose code, unlike std::vector's, belongs to the translation unit that uses it.
#pragma once

#include <cstddef>

namespace {

// For plain values: an item that is copied is whole.
template <class Item>
class List {
    Item* items = nullptr;
    std::size_t count = 0, room = 0;

public:
    List() = default;
    explicit List(std::size_t size) : items(new Item[size]()), count(size), room(size) {}
    List(const List&) = delete;
    List& operator=(const List&) = delete;
    ~List() { delete[] items; }

    void push_back(const Item& item) {
        if (count == room) {
            const std::size_t more = 2 * room + 4;
            Item* const moved = new Item[more]();
            for (std::size_t at = 0; at < count; ++at) moved[at] = items[at];
            delete[] items;
            items = moved;
            room = more;
        }
        items[count++] = item;
    }
    void clear() { count = 0; }
    std::size_t size() const { return count; }
    Item& operator[](std::size_t at) { return items[at]; }
    const Item& operator[](std::size_t at) const { return items[at]; }
    Item* begin() { return items; }
    Item* end() { return items + count; }
};

}  // namespace
